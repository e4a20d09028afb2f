// The drawing of the graph: a view that is zoomed and moved; only what is in view exists as elements.
const BOX = { width: 174, height: 42 };
const MOST_BOXES = 260;

class GraphView {
  constructor({ nodes, edges, width, height }, drawing, svg, map) {
    Object.assign(this, { nodes, edges, width, height, drawing, svg, map, byTime: false, current: -1 });
    Object.assign(this, { x: width / 2, y: 0, scale: 1 });
    this.longest = nodes.reduce((most, node) => Math.max(most, node.us), 1e-12);
  }

  get room() {
    return { width: this.drawing.clientWidth - 66, height: this.drawing.clientHeight };
  }

  // Where a point of the drawing is in the graph.
  under(x, y) {
    return [this.x + (x - this.room.width / 2) / this.scale, this.y + y / this.scale];
  }

  tint(node) {
    if (this.byTime) {
      const share = Math.round(100 * Math.sqrt(node.us / this.longest));
      return `color-mix(in srgb, var(--heat-high) ${share}%, var(--heat-low))`;
    }
    const engine = node.engine.startsWith('neural') ? 'neural' : node.engine ? 'planar' : 'none';
    return `var(--${node.where === 'host' ? 'host' : engine}-soft)`;
  }

  paint() {
    const room = this.room;
    const half = BOX.width / 2;
    const [left, top] = [this.x - room.width / 2 / this.scale - half, this.y - BOX.height];
    const right = left + room.width / this.scale + 2 * half;
    const bottom = top + room.height / this.scale + 2 * BOX.height;
    const inside = [];
    this.nodes.forEach(({ x, y }, at) => x > left && x < right && y > top && y < bottom && inside.push(at));
    const few = inside.length <= MOST_BOXES && this.scale >= 0.16;
    const shown = few ? inside.map((at) => this.box(at)) : this.merged(inside);
    const place = `translate(${room.width / 2 - this.x * this.scale} ${-this.y * this.scale}) scale(${this.scale})`;
    this.svg.replaceChildren(draw('g', { transform: place }, ...this.lines(top, bottom), ...shown));
    this.overview();
  }

  // Two elements for all lines: those of the chosen node, and the others.
  lines(top, bottom) {
    const paths = { off: '', on: '' };
    for (const [a, b, ...corners] of this.edges) {
      const [from, to] = [this.nodes[a], this.nodes[b]];
      if (Math.max(from.y, to.y) < top || Math.min(from.y, to.y) > bottom) continue;
      paths[a === this.current || b === this.current ? 'on' : 'off'] += curved(from, to, corners);
    }
    return Object.entries(paths)
      .filter(([, d]) => d)
      .map(([name, d]) => draw('path', { class: `edge ${name}`, d }));
  }

  box(at) {
    const node = this.nodes[at];
    const [left, top] = [node.x - BOX.width / 2, node.y - BOX.height / 2];
    const work = `${time(node.us)}, ${node.tasks.length} ${node.tasks.length === 1 ? 'task' : 'tasks'}`;
    const frame = { class: 'box', x: left, y: top, width: BOX.width, height: BOX.height, rx: 5 };
    const found = draw(
      'g',
      { class: at === this.current ? 'node on' : 'node', 'data-node': at },
      draw('rect', frame),
      draw('text', { x: left + 8, y: top + 16 }, cut(short(node.name), 27)),
      draw('text', { class: 'soft', x: left + 8, y: top + 31 }, node.us ? work : node.where),
    );
    found.firstChild.style.fill = this.tint(node);
    const share = Math.sqrt(node.us / this.longest) * (BOX.width - 2);
    if (share > 0) {
      const strip = draw('rect', { x: left + 1, y: top + BOX.height - 5, width: share, height: 4, rx: 1 });
      strip.style.fill = `var(--${node.engine.startsWith('planar') ? 'planar' : 'neural'})`;
      found.append(strip);
    }
    return found;
  }

  // One element for all nodes of a colour.
  merged(inside) {
    const paths = new Map();
    for (const at of inside) {
      const { x, y } = this.nodes[at];
      const fill = this.tint(this.nodes[at]);
      const outline = `M${x - BOX.width / 2} ${y - BOX.height / 2}h${BOX.width}v${BOX.height}h${-BOX.width}z`;
      paths.set(fill, (paths.get(fill) || '') + outline);
    }
    const found = [...paths].map(([fill, d]) => {
      const path = draw('path', { d, stroke: 'var(--dispatch)' });
      path.style.fill = fill;
      return path;
    });
    return inside.includes(this.current) ? [...found, this.box(this.current)] : found;
  }

  // The whole graph beside the drawing, with a frame around what is in view.
  overview() {
    const { map, width, height } = this;
    const context = map.getContext('2d');
    const ratio = devicePixelRatio || 1;
    const [across, down] = [map.clientWidth, map.clientHeight];
    [map.width, map.height] = [across * ratio, down * ratio];
    context.scale(ratio, ratio);
    const wide = Math.max(3, Math.min(across / 2, (BOX.width / width) * across));
    const high = Math.max(2, (BOX.height / height) * down * 0.8);
    for (const node of this.nodes) {
      const engine = node.engine.startsWith('planar') ? 'planar' : 'neural';
      context.fillStyle = colour(node.us ? engine : node.where === 'host' ? 'host' : 'dispatch');
      context.globalAlpha = 0.3 + 0.7 * Math.sqrt(node.us / this.longest);
      context.fillRect((node.x / width) * (across - wide), (node.y / height) * down - 1, wide, high);
    }
    context.globalAlpha = 1;
    context.strokeStyle = colour('focus');
    const seen = Math.min(down, (this.room.height / this.scale / height) * down);
    context.strokeRect(1, (this.y / height) * down, across - 2, seen);
  }

  // Makes everything larger or smaller, the point under x, y of the drawing staying where it is.
  zoom(factor, x = this.room.width / 2, y = this.room.height / 2) {
    const [before, above] = this.under(x, y);
    this.scale = Math.max(0.02, Math.min(3, this.scale * factor));
    this.x = before - (x - this.room.width / 2) / this.scale;
    this.y = above - y / this.scale;
    this.paint();
  }

  whole() {
    this.scale = Math.min(1.2, this.room.width / (this.width + 20), this.room.height / (this.height + 20));
    [this.x, this.y] = [this.width / 2, -10];
    this.paint();
  }

  start() {
    this.scale = Math.max(0.55, Math.min(1, this.room.width / (this.width + 20)));
    const fits = this.width * this.scale <= this.room.width;
    [this.x, this.y] = [fits ? this.width / 2 : this.nodes[0].x, -8];
    this.paint();
  }

  // Moves a node into view unless it is there.
  reveal(at) {
    const { x, y } = this.nodes[at];
    const room = this.room;
    const [right, down] = [(x - this.x) * this.scale + room.width / 2, (y - this.y) * this.scale];
    const seen = right > 90 && right < room.width - 90 && down > 30 && down < room.height - 30;
    if (this.scale < 0.4) this.scale = 0.8;
    else if (seen) return;
    [this.x, this.y] = [x, y - room.height / 2 / this.scale];
  }

  // The node at a point of the drawing, or -1.
  hit(x, y) {
    const [right, down] = this.under(x, y);
    const over = (node) => Math.abs(node.x - right) < BOX.width / 2 && Math.abs(node.y - down) < BOX.height / 2;
    return this.nodes.findIndex(over);
  }
}

function curved(from, to, corners) {
  const points = [[from.x, from.y + BOX.height / 2]];
  for (let at = 0; at < corners.length; at += 2) points.push([corners[at], corners[at + 1]]);
  points.push([to.x, to.y - BOX.height / 2]);
  let d = `M${points[0]}`;
  for (let at = 1; at < points.length; at += 1) {
    const [[x0, y0], [x1, y1]] = [points[at - 1], points[at]];
    const middle = (y0 + y1) / 2;
    d += `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
  }
  return d;
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}
