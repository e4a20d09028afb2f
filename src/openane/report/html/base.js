// What every page uses: the data, elements made of text, numbers for people and what they are, colours, hints.
const data = JSON.parse(document.getElementById('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';

// An element; text given as a child stays text whatever it holds.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function number(value, digits = 4) {
  if (value === null || value === undefined) return '\u2013';
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString('en');
  const size = Math.abs(value);
  return size >= 1e6 || (size < 1e-3 && size > 0) ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
}

function time(us, digits = 4) {
  if (us === null || us === undefined) return '\u2013';
  if (Math.abs(us) >= 1e6) return `${number(us / 1e6, digits)} s`;
  return Math.abs(us) >= 1e4 ? `${number(us / 1e3, digits)} ms` : `${number(us, digits)} \u00b5s`;
}

function bytes(count) {
  if (count === null || count === undefined) return '\u2013';
  let size = count;
  for (const unit of ['B', 'KiB', 'MiB']) {
    if (Math.abs(size) < 1024) return `${number(size, 3)} ${unit}`;
    size /= 1024;
  }
  return `${number(size, 3)} GiB`;
}

const percent = (share) => `${number(share * 100, 3)}%`;

function withUnit(value, unit) {
  if (unit === 'us') return time(value);
  if (unit === 'bytes') return bytes(value);
  return unit === '%' ? percent(value) : `${number(value)}${unit ? ` ${unit}` : ''}`;
}

const short = (name) => name.split(' (from ')[0];
// Names that are too long keep both ends: those of one network often begin alike.
const ends = (text, longest) => {
  const first = Math.ceil((longest - 1) * 0.4);
  return text.length > longest ? `${text.slice(0, first)}\u2026${text.slice(text.length - (longest - 1 - first))}` : text;
};
const TAIL = 20; // characters
const bothEnds = (text) =>
  text.length > 1.5 * TAIL
    ? make('span', { class: 'ends' }, make('span', {}, text.slice(0, -TAIL)), make('span', {}, text.slice(-TAIL)))
    : text;
const kind = (name) => make('span', { class: `kind ${name}` }, name);
const KINDS = {
  exact: 'counted in the program or stated by tables; nothing is estimated',
  measured: 'measured on such a machine, or in the run this report was made with',
  modelled: 'computed by rules of the timing model with known figures of the chip',
  extrapolated: 'computed with figures that are guessed, or for a program planned for another generation',
};

const kindList = (names = Object.keys(KINDS)) =>
  make(
    'ul',
    { class: 'kinds', 'aria-label': 'What numbers are' },
    ...names.map((name) => make('li', {}, kind(name), ` ${KINDS[name]}`)),
  );

function bar(share, name) {
  const found = make('span', { class: `bar ${name}`, 'aria-hidden': 'true' });
  found.style.width = `${Math.max(share > 0 ? 1 : 0, share * 110).toFixed(1)}px`;
  return found;
}

// A section with its heading, what it shows, and what its numbers are.
const sections = [];
function section(id, heading, about, ...kinds) {
  const found = make(
    'section',
    { id, 'aria-labelledby': `${id}-heading` },
    make(
      'div',
      { class: 'head' },
      make('h2', { id: `${id}-heading` }, heading),
      ...kinds.map(kind),
      make('p', {}, about),
    ),
  );
  document.getElementById('main').append(found);
  sections.push([id, heading]);
  return found;
}

// Colours are stated once, in the style; canvases ask for what they are now.
const probe = make('span', { class: 'hidden' });
document.body.append(probe);
let known = new Map();
function colour(name) {
  if (!known.has(name)) {
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

const redraws = [];
function redraw() {
  known = new Map();
  redraws.forEach((each) => each());
}

function say(text) {
  document.getElementById('live').textContent = text;
}

const tip = document.getElementById('tip');
function showTip(x, y, heading, ...lines) {
  tip.replaceChildren(make('b', {}, heading), ...lines.map((line) => make('div', {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18)}px`;
}

function hideTip() {
  tip.hidden = true;
}

// A canvas as wide as its place, drawn in CSS pixels.
function canvas(host, height, label, paint) {
  const area = make('canvas', { class: 'wide', tabindex: '0', role: 'application', 'aria-label': label });
  area.style.height = `${height}px`;
  host.append(area);
  const again = () => {
    const width = area.clientWidth,
      ratio = devicePixelRatio || 1;
    if (!width) return;
    area.width = width * ratio;
    area.height = height * ratio;
    const context = area.getContext('2d');
    context.scale(ratio, ratio);
    context.clearRect(0, 0, width, height);
    context.font = '11.5px system-ui, sans-serif';
    context.textBaseline = 'middle';
    paint(context, width, height);
  };
  new ResizeObserver(again).observe(area);
  redraws.push(again);
  return { area, again };
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0,
    high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(ends(text, middle)).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 3 ? ends(text, low) : '';
}
