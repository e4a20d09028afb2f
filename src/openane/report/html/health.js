// Values of one run on the simulator with drawn inputs, beside the model's reference.
function showHealth() {
  const run = data.numbers;
  const place = section(
    'numbers',
    'Numeric health',
    run
      ? run.about
      : 'Values are known when the report is made with --numbers: one run on the simulator with seeded inputs, beside the reference in float64.',
    ...(run ? ['measured'] : []),
  );
  if (!run) return;
  const measured = (name, index) => ({
    title: name,
    numeric: true,
    value: (row) => row[index],
    text: (row) => number(row[index], 3),
  });
  if (run.tensors.length) {
    place.append(make('h3', {}, 'Tensors'));
    new Table(place, {
      id: 'tensors',
      label: 'Tensors',
      rows: run.tensors,
      tools: [{ label: 'state', value: (row) => row[9] }],
      columns: [
        { title: 'tensor', value: (row) => row[0] },
        { title: 'operation', value: (row) => row[1] },
        { title: 'state', value: (row) => row[9] },
        { title: 'shape', value: (row) => row[2] },
        measured('reference low', 3),
        measured('reference high', 4),
        measured('largest error', 5),
        measured('relative L2', 6),
        measured('beyond fp16', 7),
        measured('lost to zero', 8),
      ],
    });
  }
  place.append(make('h3', {}, 'Tasks'));
  new Table(place, {
    id: 'values',
    label: 'Values of tasks',
    rows: run.tasks.map((row, task) => [task, ...row]),
    moved: (row) => choose(row[0], 'values'),
    opened: (row) => openTask(row[0]),
    columns: [
      { title: 'task', numeric: true, value: (row) => row[0], text: (row) => taskName(row[0]) },
      { title: 'node', value: (row) => title(row[0]) },
      measured('low', 1),
      measured('high', 2),
      measured('infinite stored', 3),
      measured('infinite read', 4),
      measured('NaN read', 5),
      { title: 'arithmetic', value: (row) => row[6] },
    ],
  });
}
