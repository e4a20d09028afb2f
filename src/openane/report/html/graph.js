// The graph of the model: what is chosen in it, by mouse and by keys, and the tasks behind it.
const GRAPH_COLOURS = [
  ['neural-soft', 'neural engine'],
  ['planar-soft', 'planar engine'],
  ['host-soft', 'host'],
  ['none-soft', 'no time of its own'],
  ['heat-high', 'longest, when coloured by time'],
];
const GRAPH_LABEL =
  'Graph of the model. Down and up follow the data, left and right go to neighbours, plus and minus zoom, ' +
  'Enter goes to the task.';
const MOST_LISTED = 80;
const COSTLIEST = 25;

function showGraph() {
  const about = 'Operations of the model from top to bottom; the bar in a box is its share of the time.';
  const place = section('graph', 'Graph', about, engineKind);
  const svg = draw('svg', { 'aria-hidden': 'true' });
  const map = make('canvas', { 'aria-hidden': 'true' });
  const role = { role: 'application', 'aria-roledescription': 'graph', 'aria-label': GRAPH_LABEL };
  const drawing = make('div', { class: 'drawing', id: 'graph-drawing', tabindex: '0', ...role }, svg, map);
  const region = { role: 'region', 'aria-label': 'The chosen operation' };
  const side = make('div', { class: 'side', id: 'graph-side', tabindex: '0', ...region });
  const view = new GraphView(data.graph, drawing, svg, map);
  const select = selecting(view, side);
  place.append(
    graphTools(view, select),
    make('div', { class: 'two' }, drawing, side),
    make('div', { class: 'legend' }, ...GRAPH_COLOURS.map(([name, text]) => legend(name, text))),
    make(
      'p',
      { class: 'hint' },
      'Wheel zooms, dragging moves. Keys: arrows follow the graph, + and \u2212 zoom, Enter shows the task.',
    ),
  );
  byKeys(view, select);
  byPointer(view, select);
  redraws.push(() => view.paint());
  if (!view.nodes.length) return;
  side.replaceChildren(...costliest(view.nodes, select));
  view.start();
  new ResizeObserver(() => view.paint()).observe(drawing);
}

function button(text, action, attributes = {}) {
  return make('button', { type: 'button', onclick: action, ...attributes }, text);
}

function graphTools(view, select) {
  const colours = ['engine', 'time'].map((name) =>
    button(`colour by ${name}`, () => colourBy(name), { 'aria-pressed': String(name === 'engine') }),
  );
  function colourBy(name) {
    view.byTime = name === 'time';
    colours.forEach((each, at) => each.setAttribute('aria-pressed', String(view.byTime === Boolean(at))));
    view.paint();
  }
  const longest = () => view.nodes.reduce((best, node, at) => (node.us > view.nodes[best].us ? at : best), 0);
  return make(
    'div',
    { class: 'tools' },
    ...colours,
    button('+', () => view.zoom(1.3), { 'aria-label': 'Zoom in' }),
    button('\u2212', () => view.zoom(1 / 1.3), { 'aria-label': 'Zoom out' }),
    button('whole graph', () => view.whole()),
    button('costliest', () => select(longest())),
  );
}

function costliest(nodes, select) {
  const busy = nodes.map((_, at) => at).filter((at) => nodes[at].us);
  const longest = busy.sort((a, b) => nodes[b].us - nodes[a].us).slice(0, COSTLIEST);
  const entry = (at) =>
    button(`${time(nodes[at].us)}  ${short(nodes[at].name)}`, () => select(at), { title: nodes[at].name });
  return [make('h3', {}, 'What costs most'), make('ul', {}, ...longest.map((at) => make('li', {}, entry(at))))];
}

// What chooses a node: shown in the graph, described beside it, told to the other parts unless they said so.
function selecting(view, side) {
  const { nodes } = view;
  const home = new Map();
  nodes.forEach((node, at) => node.tasks.forEach((task) => home.set(task, at)));
  function select(at, tell = true) {
    if (at < 0 || at >= nodes.length) return;
    const node = nodes[at];
    view.current = at;
    view.reveal(at);
    view.paint();
    side.replaceChildren(...describeNode(node));
    if (!tell) return;
    say(`${short(node.name)}, ${node.where}, ${node.us ? time(node.us) : 'no time'}, ${node.tasks.length} tasks`);
    if (node.tasks.length) choose(node.tasks[0], 'graph');
  }
  watchers.push((task, from) => {
    if (from !== 'graph' && home.has(task) && home.get(task) !== view.current) select(home.get(task), false);
  });
  return select;
}

function describeNode(node) {
  const engine = node.engine ? ` (${node.engine})` : '';
  const facts = [`${node.where}${engine}${node.reason ? `: ${node.reason}` : ''}`];
  const share = percent(node.us / (data.profile.engine_us || 1));
  if (node.us) facts.push(`${time(node.us)}, ${share} of the engine's time (${engineKind})`);
  const entry = (task) => {
    const text = `${taskName(task)}  ${cell(task, 'operation')}  ${time(cell(task, 'time_us'))}`;
    return make('li', {}, button(text, () => openTask(task), { title: data.words[task] }));
  };
  const left = node.tasks.length - MOST_LISTED;
  return [
    make('h3', {}, node.name),
    ...facts.map((text) => make('p', {}, text)),
    make('h3', {}, `Tasks (${node.tasks.length})`),
    make('ul', {}, ...node.tasks.slice(0, MOST_LISTED).map(entry)),
    ...(left > 0 ? [make('p', {}, `and ${left} more, in the table`)] : []),
  ];
}

// The node an arrow key leads to: along the edges, or beside it in its layer.
function neighbour({ nodes, edges, current }, key) {
  if (current < 0) return 0;
  const here = nodes[current];
  const far = (at) => Math.abs(nodes[at].x - here.x);
  const near = (list) => list.reduce((best, at) => (best < 0 || far(at) < far(best) ? at : best), -1);
  if (key === 'ArrowDown') return near(edges.filter(([a]) => a === current).map(([, b]) => b));
  if (key === 'ArrowUp') return near(edges.filter(([, b]) => b === current).map(([a]) => a));
  const sign = key === 'ArrowRight' ? 1 : -1;
  const row = nodes.map((_, at) => at).filter((at) => nodes[at].y === here.y && (nodes[at].x - here.x) * sign > 0);
  return row.length ? near(row) : current + sign;
}

function byKeys(view, select) {
  const open = () => {
    const task = view.nodes[view.current]?.tasks[0];
    if (task !== undefined) openTask(task);
  };
  const larger = () => view.zoom(1.3);
  const acts = { '+': larger, '=': larger, '-': () => view.zoom(1 / 1.3), 0: () => view.whole(), Enter: open };
  view.drawing.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey) return;
    if (event.key.startsWith('Arrow')) select(neighbour(view, event.key));
    else if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else return;
    event.preventDefault();
  });
}

function byPointer(view, select) {
  const { drawing, svg, map } = view;
  let held = null;
  svg.addEventListener('pointerdown', (event) => {
    held = { x: event.clientX, y: event.clientY, moved: false };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener('pointermove', (event) => {
    if (!held) return;
    const [right, down] = [event.clientX - held.x, event.clientY - held.y];
    if (!held.moved && Math.hypot(right, down) < 4) return;
    held = { x: event.clientX, y: event.clientY, moved: true };
    view.x -= right / view.scale;
    view.y -= down / view.scale;
    view.paint();
  });
  svg.addEventListener('pointerup', (event) => {
    drawing.focus({ preventScroll: true });
    const edge = svg.getBoundingClientRect();
    if (held && !held.moved) select(view.hit(event.clientX - edge.left, event.clientY - edge.top));
    held = null;
  });
  drawing.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey && document.activeElement !== drawing) return; // the page scrolls until the graph is chosen
      event.preventDefault();
      view.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
  map.addEventListener('click', (event) => {
    view.y = (event.offsetY / map.clientHeight) * view.height - view.room.height / 2 / view.scale;
    view.paint();
  });
}

function legend(name, text) {
  const patch = make('i');
  patch.style.background = `var(--${name})`;
  return make('span', {}, patch, text);
}
