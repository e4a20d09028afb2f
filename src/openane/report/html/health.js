// Values of one run on the simulator with drawn inputs, beside the model's reference.
const MOST_FINDINGS = 6;

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
    const at = Object.fromEntries(run.columns.map((name, index) => [name, index]));
    const wrong = run.tensors.filter((row) => row[at.why]);
    const words = (row) => `${row[at.tensor]} (${short(row[at.operation])}) ${row[at.state]}: ${row[at.why]}`;
    const left = wrong.length - MOST_FINDINGS;
    const findings = [...wrong.slice(0, MOST_FINDINGS).map(words), ...(left > 0 ? [`and ${left} more, in the table`] : [])];
    place.append(
      make('h3', {}, 'Findings'),
      findings.length
        ? make('ul', { class: 'notes' }, ...findings.map((text) => make('li', {}, text)))
        : make('p', { class: 'hint' }, 'Every stored tensor agrees with its reference.'),
      make('h3', {}, 'Tensors'),
    );
    new Table(place, {
      id: 'tensors',
      label: 'Tensors',
      rows: run.tensors,
      tools: [{ label: 'state', value: (row) => row[at.state] }],
      columns: [
        { title: 'tensor', name: true, value: (row) => row[at.tensor] },
        { title: 'operation', name: true, value: (row) => row[at.operation] },
        { title: 'state', value: (row) => row[at.state] },
        { title: 'shape', value: (row) => row[at.shape] },
        measured('reference low', at.low),
        measured('reference high', at.high),
        measured('largest error', at.max_abs),
        measured('relative L2', at.l2_rel),
        measured('own L2', at.own_l2_rel),
        measured('infinite', at.overflow),
        measured('reference beyond fp16', at.beyond_fp16),
        measured('lost to zero', at.lost),
        { title: 'why', value: (row) => row[at.why] },
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
      { title: 'node', name: true, value: (row) => title(row[0]) },
      measured('low', 1),
      measured('high', 2),
      measured('infinite stored', 3),
      measured('infinite read', 4),
      measured('NaN read', 5),
      { title: 'arithmetic', value: (row) => row[6] },
    ],
  });
}
