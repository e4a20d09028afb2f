// The table of tasks, and of the chosen one its figures and registers with their meanings.
let tasks = null;

function showTasks() {
  const place = section(
    'tasks',
    'Tasks',
    `Multiplications are ${data.profile.kinds.counts}, bytes ${data.profile.kinds.bytes}, times ${engineKind}. Sort by a heading, filter by words; the arrow keys move, Enter shows the registers.`,
    ...new Set([data.profile.kinds.counts, data.profile.kinds.bytes, engineKind]),
  );
  const at = (name) => (task) => data.rows[task][column[name]];
  const timed = (name) => ({ numeric: true, value: at(name), text: (task) => time(at(name)(task)) });
  const sized = (name) => ({ numeric: true, value: at(name), text: (task) => bytes(at(name)(task)) });
  const shared = (name) => ({ numeric: true, value: at(name), text: (task) => percent(at(name)(task)) });
  const longest = data.rows.reduce((most, row) => Math.max(most, row[column.time_us]), 1e-12);
  tasks = new Table(place, {
    id: 'tasks',
    label: 'Tasks',
    rows: data.rows.map((_, task) => task),
    tools: [
      { label: 'engine', value: at('engine') },
      { label: 'bound', value: at('bound') },
      { label: 'operation', value: at('operation') },
    ],
    moved: (task) => choose(task, 'table'),
    opened: (task) => openTask(task),
    columns: [
      { title: 'task', numeric: true, value: (task) => task, text: taskName },
      { title: 'operation', name: true, value: at('operation') },
      { title: 'node', name: true, value: (task) => at('node')(task) || '\u2013' },
      { title: 'engine', value: at('engine') },
      { title: 'bound', value: at('bound') },
      {
        title: 'start',
        numeric: true,
        value: at('start_us'),
        text: (task) => `${at('start_us')(task).toFixed(2)} \u00b5s`,
      },
      { title: 'time', ...timed('time_us') },
      { title: 'share', ...shared('share') },
      {
        title: 'length',
        value: at('time_us'),
        text: () => '',
        node: (task) => bar(at('time_us')(task) / longest, at('engine')(task)),
      },
      { title: 'use', ...shared('utilisation') },
      { title: 'multiplies', numeric: true, value: at('multiplies'), text: (task) => number(at('multiplies')(task)) },
      { title: 'coefficients', ...sized('kernel_bytes') },
      { title: 'operands', ...sized('tile_bytes') },
      { title: 'L2', ...sized('l2_bytes') },
    ],
  });
  watchers.push((task, from) => from !== 'table' && tasks.point(task));
  showDetail();
}

function openTask(task) {
  choose(task, 'open');
  const place = document.getElementById('task');
  place.scrollIntoView({ block: 'start' });
  document.getElementById('task-body').focus({ preventScroll: true });
}

function showDetail() {
  const place = section(
    'task',
    'Task',
    'Registers that are not at their default; hover or move with the arrow keys for what each means. Shaded: changed since the task before.',
    'exact',
  );
  const body = make(
    'div',
    { id: 'task-body', tabindex: '-1' },
    make('p', {}, 'Choose a task in the graph, the timeline or the table.'),
  );
  place.append(body);
  watchers.push((task) => body.replaceChildren(...describeTask(task)));
}

function describeTask(task) {
  const parts = Object.entries(data.parts).map(([name, values]) => [name, values[task]]);
  const most = Math.max(1e-12, ...parts.map(([, us]) => us));
  const run = data.numbers?.tasks?.[task];
  const held = cell(task, 'held_bytes');
  const facts = [
    ['does', data.words[task]],
    ['for', cell(task, 'node') || 'an operation that is not known'],
    [
      'time',
      `${time(cell(task, 'time_us'))} from ${time(cell(task, 'start_us'), 7)}, ${percent(cell(task, 'share'))} of the engine's time, bound by ${cell(task, 'bound')} (${percent(cell(task, 'utilisation'))} of its peak)`,
    ],
    [
      'moves',
      `${bytes(cell(task, 'kernel_bytes'))} of coefficients${held ? ` (${bytes(held)} are still in the cores)` : ''}, ${bytes(cell(task, 'tile_bytes'))} of operands and results in memory, ${bytes(cell(task, 'l2_bytes'))} in L2`,
    ],
  ];
  if (run)
    facts.push([
      'stored',
      `${number(run[0])} to ${number(run[1])}, ${number(run[2])} infinite, ${number(run[4])} NaN read`,
    ]);
  return [
    make('h3', {}, `Task ${taskName(task)}: ${cell(task, 'operation')}`),
    make(
      'dl',
      { class: 'summary' },
      ...facts.map(([name, text]) => make('div', {}, make('dt', { class: 'hint' }, name), make('dd', {}, text))),
    ),
    make('h3', {}, `Time of each part (${engineKind})`),
    make(
      'div',
      {},
      ...parts.map(([name, us]) =>
        make(
          'div',
          { class: 'part' },
          make('span', {}, name),
          bar(us / most, name === 'planar' ? 'planar' : 'neural'),
          make('span', {}, time(us)),
        ),
      ),
    ),
    make('h3', {}, 'Registers'),
    registerView(task),
  ];
}

// Tasks state what changed since the one before: put together up to the one wanted.
function registersOf(task) {
  const now = new Map();
  const changed = new Set();
  for (let at = 0; at <= task; at += 1) {
    changed.clear();
    const changes = data.registers.tasks[at];
    for (let place = 0; place < changes.length; place += 2) {
      changed.add(changes[place]);
      if (changes[place + 1] < 0) now.delete(changes[place]);
      else now.set(changes[place], changes[place + 1]);
    }
  }
  return { now, changed: task ? changed : new Set() };
}

function registerView(task) {
  const { now, changed } = registersOf(task);
  const { fields, values, blocks } = data.registers;
  const rows = mergeRows([...now].map(([field, value]) => ({ field, value, on: changed.has(field) })));
  const groups = new Map();
  rows.forEach((row) => groups.set(fields[row.field][0], [...(groups.get(fields[row.field][0]) || []), row]));
  const place = make('div', { class: 'registers', role: 'list', 'aria-label': 'Registers' });
  for (const [block, members] of groups) {
    place.append(
      make(
        'div',
        { class: 'block', role: 'group', 'aria-label': block },
        make('h3', { title: blocks[block] || '' }, `${block}${blocks[block] ? `: ${blocks[block]}` : ''}`),
        ...members.map((row) => registerRow(fields[row.field], values[row.value], row)),
      ),
    );
  }
  roving(place);
  return place;
}

function registerRow([block, , bits, meaning, evidence], value, row) {
  const about = meaning || 'no meaning is stated';
  const shown = make(
    'div',
    {
      class: row.on ? 'field changed' : 'field',
      role: 'listitem',
      tabindex: '-1',
      'aria-label': `${block} ${row.name}: ${value}. ${about}`,
    },
    make('span', {}, row.name),
    make('span', {}, value),
  );
  const tell = (x, y) =>
    showTip(
      x,
      y,
      `${block}.${row.name} = ${value}`,
      about,
      `${bits ? `bits ${bits}, ` : ''}${evidence || 'not described'}${row.on ? '; changed since the task before' : ''}`,
    );
  shown.addEventListener('pointermove', (event) => tell(event.clientX, event.clientY));
  shown.addEventListener('pointerleave', hideTip);
  shown.addEventListener('focus', () => {
    const box = shown.getBoundingClientRect();
    tell(box.left, box.bottom - 14);
  });
  shown.addEventListener('blur', hideTip);
  return shown;
}

// Neighbours of an array with one value on one line.
function mergeRows(rows) {
  const merged = [];
  const open = new Map();
  for (const row of rows.sort((a, b) => a.field - b.field)) {
    const [block, name] = data.registers.fields[row.field];
    const parts = /^(.*)\[(\d+)\](.*)$/.exec(name);
    row.name = name;
    if (!parts) {
      merged.push(row);
      continue;
    }
    const key = [block, parts[1], parts[3], row.value].join('|'),
      place = Number(parts[2]),
      before = open.get(key);
    if (before && before.last === place - 1) {
      before.last = place;
      before.on ||= row.on;
      before.name = `${parts[1]}[${before.first}..${place}]${parts[3]}`;
    } else {
      Object.assign(row, { first: place, last: place });
      open.set(key, row);
      merged.push(row);
    }
  }
  return merged;
}

// One stop of the tab key for many things: the arrow keys move among them.
function roving(place) {
  const all = [...place.querySelectorAll('.field')];
  if (all.length) all[0].tabIndex = 0;
  place.addEventListener('keydown', (event) => {
    const at = all.indexOf(document.activeElement);
    const to = {
      ArrowDown: at + 1,
      ArrowRight: at + 1,
      ArrowUp: at - 1,
      ArrowLeft: at - 1,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    if (at < 0 || to === undefined || !all[to]) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    all[to].tabIndex = 0;
    all[to].focus();
  });
}
