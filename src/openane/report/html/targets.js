// The page of several targets: what each makes of the model, and where every operation runs.
const taken = data.targets.filter((target) => !target.refused);
const labelOf = (target) => [target.target, target.function].filter(Boolean).join(' ');
const engineOf = (target) => `${labelOf(target)}${target.target === target.generation ? '' : ` (${target.generation})`}`;

function showTargets() {
  const count = new Set(data.targets.map((target) => target.target)).size;
  document.title = `${data.model} for ${count} targets`;
  document.getElementById('title').textContent = document.title;
  document.getElementById('subtitle').textContent =
    `compiled for ${[...new Set(taken.map((target) => target.generation))].join(', ') || 'none'}; openane ${data.openane}`;
  const place = section(
    'targets',
    'Targets',
    'What every target makes of the model. One inference is the engine\u2019s time and a call through macOS, on the chip that is named.',
  );
  place.append(kindList(['exact', 'modelled', 'extrapolated']));
  const longest = taken.reduce((most, target) => Math.max(most, target.engine_us), 1e-12);
  const plainText = (name) => (target) => target[name] ?? '\u2013';
  const sized = (title, name) => ({
    title,
    numeric: true,
    value: (target) => target[name],
    text: (target) => bytes(target[name]),
  });
  const timed = (title, name) => ({
    title,
    numeric: true,
    value: (target) => target[name],
    text: (target) => time(target[name]),
  });
  const counted = (title, value) => ({ title, numeric: true, value, text: (target) => number(value(target)) });
  new Table(place, {
    id: 'targets',
    label: 'Targets',
    rows: data.targets,
    columns: [
      { title: 'target', value: engineOf },
      { title: 'chips with its engine', value: (target) => target.chips.join(', ') },
      counted('tasks', (target) => target.tasks),
      sized('program', 'program_bytes'),
      sized('constants', 'constant_bytes'),
      sized('scratch', 'scratch_bytes'),
      counted('host', (target) => target.host_operations?.length),
      { title: 'timed on', value: plainText('chip') },
      timed('engine', 'engine_us'),
      timed('one inference', 'time_us'),
      {
        title: 'times are',
        value: (target) => target.times ?? 'refused',
        node: (target) => (target.refused ? 'refused' : kind(target.times)),
      },
      {
        title: 'engine, drawn',
        value: (target) => target.engine_us ?? 0,
        text: () => '',
        node: (target) => bar((target.engine_us ?? 0) / longest, 'neural'),
      },
    ],
  });
  const notes = [
    ...data.targets.filter((target) => target.refused).map((target) => `Refused for ${labelOf(target)}: ${target.refused}`),
    ...taken.filter((target) => target.times_without).map((target) => `Times of ${labelOf(target)} are ${target.times_without}`),
  ];
  if (notes.length) place.append(make('ul', { class: 'notes' }, ...notes.map((text) => make('li', {}, text))));
  place.append(
    make(
      'p',
      { class: 'hint' },
      'program: the words of its tasks; constants: weights and tables as the engine reads them; scratch: intermediate results in memory; host: operations that the host computes; engine, drawn: the engine\u2019s times against the longest.',
    ),
  );
}

function showPlaces() {
  const differing = data.operations.filter((operation) => operation.differs).length;
  const place = section(
    'operations',
    'Operations',
    `${differing ? number(differing) : 'None'} of ${number(data.operations.length)} differ between targets in where they run or in how many tasks they have. A number counts tasks of the operation\u2019s own; fused: in the task of another, free: nothing to execute, folded: computed beforehand.`,
    'exact',
  );
  const side = make('aside', { class: 'side', tabindex: '0', 'aria-label': 'The chosen operation' });
  const main = make('div', {});
  place.append(make('div', { class: 'two' }, main, side));
  const differs = (operation) => (operation.differs ? 'targets differ' : 'all the same');
  const shown = (operation, at) =>
    operation.differs
      ? make('span', { class: operation.places[at] === usual(operation.places) ? null : 'differs' }, String(operation.places[at]))
      : String(operation.places[at]);
  const grid = new Table(main, {
    id: 'operations',
    label: 'Operations',
    rows: data.operations,
    tools: [{ label: 'differences', value: differs }],
    columns: [
      { title: 'operation', name: true, value: (operation) => operation.operation, text: (operation) => short(operation.operation) },
      ...data.columns.map((title, at) => ({
        title,
        value: (operation) => operation.places[at],
        text: (operation) => String(operation.places[at]),
        node: (operation) => shown(operation, at),
      })),
    ],
    moved: (operation) => choosePlace(side, operation),
  });
  if (differing) {
    grid.tools[0].list.value = 'targets differ';
    grid.arrange();
  }
  if (grid.order.length) choosePlace(side, data.operations[grid.order[0]]);
}

// What most targets have of an operation; of several the first.
function usual(places) {
  const times = (place) => places.filter((each) => each === place).length;
  return places.reduce((best, place) => (times(place) > times(best) ? place : best), places[0]);
}

// What targets have of an operation, those that have the same together.
function choosePlace(side, operation) {
  const said = (at) => {
    if (operation.where[at] === null) return 'no such operation';
    const count = operation.places[at];
    const tasks = typeof count === 'number' ? `, ${count} task${count === 1 ? '' : 's'}` : '';
    return `${operation.where[at]}${tasks}${operation.reasons[at] ? `: ${operation.reasons[at]}` : ''}`;
  };
  const groups = new Map();
  data.columns.forEach((title, at) => groups.set(said(at), [...(groups.get(said(at)) || []), title]));
  side.replaceChildren(
    make('h3', {}, operation.operation),
    ...[...groups].flatMap(([text, titles]) => [make('h3', {}, titles.join(', ')), make('div', {}, text)]),
  );
}

showTheme();
showTargets();
showPlaces();
finishPage();
