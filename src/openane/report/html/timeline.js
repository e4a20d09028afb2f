// Tasks over time, a track per engine, with what is live in L2 and how fast memory is read and written.
const TRACKS = ['dispatch', 'coefficients', 'neural', 'planar'];
const TIMELINE_COLOURS = [
  ['dispatch', 'dispatch'],
  ['coefficients', 'coefficients'],
  ['neural', 'neural engine'],
  ['planar', 'planar engine'],
  ['memory', 'live bytes of L2'],
  ['accent', 'GB/s of memory'],
];
const GUTTER = 108;
const MARGIN = 8;
const TRACK = 30;
const CURVE = 52;
const AXIS = 22;
const CURVES = TRACKS.length * TRACK;
const TIMELINE = CURVES + 2 * CURVE + AXIS + MARGIN;

const largest = (values) => values.reduce((most, value) => Math.max(most, value), 0);

class Timeline {
  constructor(now) {
    this.now = now;
    this.starts = data.rows.map((row) => row[column.start_us]);
    this.spans = data.rows.map((row) => row[column.time_us]);
    this.last = data.rows.length - 1;
    this.end = this.starts[this.last] + this.spans[this.last];
    this.least = Math.max(this.end / 1e6, 1e-3);
    const steps = data.bandwidth.map(([from, rate], at) => [from, data.bandwidth[at + 1]?.[0] ?? from, rate]);
    const live = data.memory.live.L2.map((value, task) => [...this.span(task), value]);
    this.curves = [
      ['memory', live, largest(data.memory.live.L2)],
      ['accent', steps, largest(data.bandwidth.map(([, rate]) => rate))],
    ];
    this.view = this.engine();
  }

  span(task) {
    return [this.starts[task], this.starts[task] + this.spans[task]];
  }

  // What is shown at first: the engine alone where a single dispatch would leave no room for it.
  engine() {
    return { from: data.profile.programs > 1 ? 0 : this.starts[0], to: this.end };
  }

  x(us, width) {
    return GUTTER + ((us - this.view.from) / (this.view.to - this.view.from)) * (width - GUTTER - MARGIN);
  }

  time(x, width) {
    return this.view.from + ((x - GUTTER) / (width - GUTTER - MARGIN)) * (this.view.to - this.view.from);
  }

  paint(context, width) {
    this.labels(context);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER - MARGIN, TIMELINE);
    context.clip();
    this.slices(context, width);
    this.curves.forEach(([name, steps, highest], row) => this.curve(context, width, row, name, steps, highest));
    this.axis(context, width);
    context.restore();
    this.now.textContent = this.words();
  }

  words() {
    const { task } = chosen;
    if (task < 0) return `${number(this.last + 1)} tasks, ${time(this.view.to - this.view.from)} shown`;
    return `task ${taskName(task)}: ${title(task)}, ${time(this.spans[task])}, bound by ${cell(task, 'bound')}`;
  }

  labels(context) {
    context.fillStyle = colour('soft');
    TRACKS.forEach((name, row) => context.fillText(name, 8, row * TRACK + TRACK / 2 + 4));
    const [live, rate] = this.curves.map(([, , highest]) => highest);
    const titles = [['L2 live', bytes(live)], ['GB/s', `${number(rate, 3)} at most`]];
    titles.forEach((lines, row) =>
      lines.forEach((text, line) => context.fillText(text, 8, CURVES + row * CURVE + CURVE / 2 + 3 + 15 * line)),
    );
  }

  slices(context, width) {
    data.calls.forEach((span, program) => this.slice(context, width, 'dispatch', span, `dispatch ${program}`));
    data.coefficients.forEach((span, task) => {
      this.slice(context, width, 'coefficients', span, `of task ${taskName(task)}`, task === chosen.task);
    });
    const show = (task) =>
      this.slice(context, width, cell(task, 'engine'), this.span(task), title(task), task === chosen.task);
    data.rows.forEach((_, task) => task !== chosen.task && show(task));
    if (chosen.task >= 0) show(chosen.task); // last: its frame covers its neighbours' edges
  }

  slice(context, width, track, [begin, finish], label, on = false) {
    const [left, right] = [this.x(begin, width), this.x(finish, width)];
    if (right < GUTTER || left > width || finish <= begin) return;
    const [top, high, gap] = [TRACKS.indexOf(track) * TRACK + 5, TRACK - 8, right - left > 3 ? 1 : 0];
    context.fillStyle = colour(track);
    context.fillRect(left, top, Math.max(0.7, right - left - gap), high);
    if (on) {
      context.strokeStyle = colour('text');
      context.lineWidth = 2.5;
      context.strokeRect(left - 1, top - 1, Math.max(3, right - left + 1), high + 2);
    }
    if (right - left <= 46) return;
    const shown = Math.max(left, GUTTER);
    context.fillStyle = colour('page');
    context.fillText(clipped(context, label, Math.min(right, width) - shown - 8), shown + 4, top + high / 2);
  }

  curve(context, width, row, name, steps, highest) {
    const base = CURVES + (row + 1) * CURVE;
    context.fillStyle = colour(name);
    context.globalAlpha = 0.6;
    for (const [from, to, value] of steps) {
      const [left, right] = [this.x(from, width), this.x(to, width)];
      if (right < GUTTER || left > width || !value) continue;
      const high = (value / (highest || 1)) * (CURVE - 12);
      context.fillRect(left, base - high, Math.max(0.7, right - left), high);
    }
    context.globalAlpha = 1;
  }

  axis(context, width) {
    const { from, to } = this.view;
    const rough = (to - from) / Math.max(2, Math.floor((width - GUTTER) / 110));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
    const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(step))));
    context.strokeStyle = colour('line');
    context.fillStyle = colour('soft');
    context.lineWidth = 0.6;
    for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
      const x = this.x(tick, width);
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, TIMELINE - AXIS);
      context.stroke();
      context.fillText(`${tick.toFixed(digits)} \u00b5s`, x + 3, TIMELINE - AXIS / 2);
    }
  }

  show(from, to) {
    const span = Math.max(this.least, Math.min(this.end, to - from));
    const begin = Math.max(0, Math.min(this.end - span, from));
    this.view = { from: begin, to: begin + span };
    this.again();
  }

  zoom(factor, middle = (this.view.from + this.view.to) / 2) {
    this.show(middle - (middle - this.view.from) / factor, middle + (this.view.to - middle) / factor);
  }

  around(task) {
    if (task < 0) return;
    const [begin, finish] = this.span(task);
    const half = Math.max((finish - begin) * 6, this.least / 2);
    this.show((begin + finish) / 2 - half, (begin + finish) / 2 + half);
  }

  follow(task) {
    const [begin, finish] = this.span(task);
    if (finish < this.view.from || begin > this.view.to) this.around(task);
    this.again();
  }

  // The task at a point, or whose coefficients are there; -1 where there is none.
  hit(x, y, width) {
    const us = this.time(x, width);
    const inside = ([begin, finish]) => us >= begin && us < finish;
    if (Math.floor(y / TRACK) === TRACKS.indexOf('coefficients')) return data.coefficients.findIndex(inside);
    let [low, high] = [0, this.last];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= us) low = middle;
      else high = middle - 1;
    }
    return inside(this.span(low)) ? low : -1;
  }
}

function showTimeline() {
  if (!data.rows.length) return;
  const about =
    'Dispatch, coefficients on their way, and the two engines; below them live bytes of L2 and the bandwidth of memory.';
  const place = section('timeline', 'Timeline', about, timeKind);
  const now = make('output', { id: 'timeline-now' });
  const line = new Timeline(now);
  const tools = [
    button('+', () => line.zoom(1.5), { 'aria-label': 'Zoom in' }),
    button('\u2212', () => line.zoom(1 / 1.5), { 'aria-label': 'Zoom out' }),
    button('engine', () => line.show(line.engine().from, line.end)),
    button('with dispatch', () => line.show(0, line.end)),
    button('chosen task', () => line.around(chosen.task)),
  ];
  place.append(make('div', { class: 'tools' }, ...tools, now));
  const label =
    'Timeline of tasks. Left and right choose the task before or after, plus and minus zoom, 0 shows all.';
  const { area, again } = canvas(place, TIMELINE, label, (context, width) => line.paint(context, width));
  area.id = 'timeline-canvas';
  line.again = again;
  const keys =
    'Drag to move, hold Ctrl and turn the wheel to zoom. Keys: left and right choose tasks, + and \u2212 zoom, 0 shows all.';
  place.append(
    make('div', { class: 'legend' }, ...TIMELINE_COLOURS.map(([name, text]) => legend(name, text))),
    make('p', { class: 'hint' }, keys),
  );
  timelineKeys(line, area);
  timelinePointer(line, area);
  watchers.push((task) => line.follow(task));
}

function timelineKeys(line, area) {
  const pick = (task) => {
    choose(Math.max(0, Math.min(line.last, task)), 'timeline');
    say(line.words());
  };
  const larger = () => line.zoom(1.5);
  const acts = {
    ArrowRight: () => pick(chosen.task + 1),
    ArrowLeft: () => pick(chosen.task - 1),
    Home: () => pick(0),
    End: () => pick(line.last),
    '+': larger,
    '=': larger,
    '-': () => line.zoom(1 / 1.5),
    0: () => line.show(0, line.end),
    Enter: () => chosen.task >= 0 && openTask(chosen.task),
  };
  area.addEventListener('keydown', (event) => {
    if (!Object.hasOwn(acts, event.key) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  });
}

function timelinePointer(line, area) {
  const under = (event) => line.hit(event.offsetX, event.offsetY, area.clientWidth);
  let held = null;
  area.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey && document.activeElement !== area) return; // the page scrolls until the timeline is chosen
      event.preventDefault();
      line.zoom(Math.exp(-event.deltaY / 300), line.time(event.offsetX, area.clientWidth));
    },
    { passive: false },
  );
  area.addEventListener('pointerdown', (event) => {
    held = { x: event.clientX, moved: false, ...line.view };
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener('pointermove', (event) => {
    if (held && (held.moved || Math.abs(event.clientX - held.x) > 3)) {
      held.moved = true;
      const shift = ((held.x - event.clientX) / (area.clientWidth - GUTTER - MARGIN)) * (held.to - held.from);
      line.show(held.from + shift, held.to + shift);
      return;
    }
    const task = under(event);
    if (task >= 0) showTask(event.clientX, event.clientY, task);
    else hideTip();
  });
  area.addEventListener('pointerup', (event) => {
    if (held && !held.moved) choose(under(event), 'timeline');
    held = null;
  });
  area.addEventListener('pointerleave', hideTip);
}
