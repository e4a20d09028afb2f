"""A matrix's rows each made one number by an operation that no engine has: regions' samples."""

from __future__ import annotations

import numpy as np

from openane.graph import Value
from openane.ops.build import GraphBuilder


def row_means(builder: GraphBuilder, x: Value, name: str = "") -> Value:
    """The mean of each row, [rows, 1] of [rows, columns]: a roi_align of the host, whose bins are whole rows."""
    rows, columns = x.shape
    image = builder.single("reshape", x=x, shape=[1, 1, rows, columns])
    found = builder.single("roi_align", name, x=image, rois=np.array([[0, 0, columns, rows]], np.float16),
                           batch_indices=np.zeros(1, np.int32), output_height=rows, output_width=1)
    return builder.single("reshape", x=found, shape=[rows, 1])
