"""The zoo's lists and verdicts: every library is there, a wrong number is told from a right one, failures shrink."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zoo
from zoo_models.libraries import described
from zoo_models.page import page, row
from zoo_models.record import RECORD, kept, merged, write_record
from zoo_models.verdicts import worst


def test_the_lists_have_models_of_every_library() -> None:
    models = list(described())
    counts = Counter(model.library for model in models)
    assert len({model.key for model in models}) == len(models)
    for library, least in (("torchvision", 28), ("timm", 45), ("transformers", 60), ("published", 15)):
        assert counts[library] >= least
    assert set(zoo.known()) <= {model.key for model in models}


def test_errors_are_over_the_largest_number_of_an_output() -> None:
    wanted = [np.array([[1.0, -4.0], [np.inf, 2.0]]), np.array([1, 2, 3, 4])]
    assert worst([wanted[0], wanted[1]], wanted) == 0
    assert worst([wanted[0] + [[0.4, 0], [0, 0]], wanted[1]], wanted) == pytest.approx(0.1)
    assert worst([wanted[0], np.array([1, 2, 3, 5])], wanted) == 0.25
    assert worst([np.full((2, 2), np.nan), wanted[1]], wanted) == np.inf
    assert worst(wanted[:1], wanted) == np.inf
    assert worst([], []) is None


def test_what_is_wrong_depends_on_what_fp16_itself_errs() -> None:
    found = {"model": "timm/a", "verdict": "engine", "error": 0.06}
    assert zoo.judged(found)["verdict"] == "wrong"
    assert zoo.judged(found | {"half_error": 0.021})["verdict"] == "engine"
    assert zoo.judged(found | {"error": float("inf"), "half_error": 0.021})["verdict"] == "wrong"
    assert zoo.judged(found | {"error": float("nan")})["verdict"] == "wrong"


def test_known_failures_shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(zoo, "KNOWN", tmp_path / "known.txt")
    first = [{"model": "timm/a", "verdict": "wrong"}, {"model": "timm/b", "verdict": "refused"},
             {"model": "timm/c", "verdict": "engine"}]
    assert zoo.unlisted(first) == ["timm/a", "timm/b"]
    zoo.write_known(first)
    assert zoo.known() == {"timm/a": "wrong", "timm/b": "refused"}
    assert not zoo.unlisted(first)
    later = [{"model": "timm/a", "verdict": "engine"}, {"model": "timm/b", "verdict": "crash"},
             {"model": "timm/d", "verdict": "wrong"}]
    assert zoo.unlisted(later) == ["timm/b", "timm/d"]
    zoo.write_known(later)
    assert zoo.known() == {"timm/b": "refused"}
    assert "timm/d" in capsys.readouterr().out


def test_results_are_a_line_and_a_page() -> None:
    documents = [{"model": "timm/a", "verdict": "lookups", "tasks": 12, "error": 0.004, "half_error": 0.001,
                  "host": {"gather": 2}, "seconds": {"load": 1.0, "compile": 0.5},
                  "rescaled": {"tasks": 2, "time": 0.061}},
                 {"model": "published/b", "verdict": "refused", "message": "conv 'x': a rule\nmore"}]
    assert "12 tasks, error 0.004 (fp16 0.001), 1.5 s, host: gather 2" in row(documents[0])
    text = page(documents, {})
    assert "| a | lookups | 12 | gather 2 | 0.004 | 0.001 | 4 | +2, +6.1% | 1.5 |" in text
    assert "their modelled time is +6.10% (geometric mean), +6.1% at most, and above +5% in 1." in text
    assert "| timm | 1 | 4.00 |" in text
    assert "- b: conv 'x': a rule more" in text


def test_a_model_that_errs_more_than_in_fp16_needs_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "REASONS", tmp_path / "reasons.txt")
    zoo.REASONS.write_text("# why\ntimm/a its tables\ntimm/b sums of small products\n")
    good = {"model": "timm/a", "verdict": "engine", "error": 0.004, "half_error": 0.001}
    bad = [{"model": f"timm/{name}", "verdict": "engine", "error": 0.0041, "half_error": 0.001} for name in "bc"]
    assert zoo.unlisted([good, *bad]) == ["timm/c"]
    text = page([good, *bad], zoo.reasons())
    assert "| timm/b | 4.1 | sums of small products |" in text
    assert "| timm/c | 4.1 | not known |" in text
    assert "| timm/a | 4" not in text
    zoo.write_reasons([good, *bad])
    assert zoo.reasons() == {"timm/b": "sums of small products"}


def test_the_page_is_what_the_record_says_and_a_few_models_can_be_tried_again() -> None:
    record = kept(RECORD)
    order = [model.key for model in described()]
    assert zoo.PAGE.read_text() == page(list(record.values()), zoo.reasons())
    again = {"model": order[1], "verdict": "engine", "error": 0.12345, "operations": 7, "seconds": {"run": 2.0}}
    found = merged(record, [again, {"model": order[2], "verdict": "unbuilt"}], order)
    assert found[1] == {"model": order[1], "verdict": "engine", "error": 0.123, "seconds": {}}
    assert [*found[:1], *found[2:]] == [record[key] for key in order if key != order[1]]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    documents = [{"model": "timm/a", "verdict": "wrong", "error": float("inf")}]
    write_record(tmp_path / "results.jsonl", documents)
    assert kept(tmp_path / "results.jsonl") == {"timm/a": documents[0]}
