// A table of any length: only the rows in view exist. Sorted by its headings, filtered by words, moved through by keys.
const ROW = 28,
  SPARE = 8,
  PRINTED = 100;

class Table {
  // columns: {title, value(row), text(row) or node(row), numeric, name}; tools: [{label, value(row)}] for lists of choices.
  constructor(host, { id, label, columns, rows, tools = [], sort = null, opened = null, moved = null }) {
    Object.assign(this, { id, columns, rows, opened, moved, tools: [], sort: sort || { at: -1, down: false } });
    this.at = -1;
    this.order = rows.map((_, at) => at);
    this.words = null;
    const bar = make('div', { class: 'tools' });
    this.filter = make('input', {
      type: 'search',
      id: `${id}-filter`,
      placeholder: 'filter: words to be found',
      'aria-label': `Filter ${label}`,
      oninput: () => this.arrange(),
    });
    bar.append(this.filter);
    for (const tool of tools) this.#choice(bar, tool);
    this.count = make('output', { 'aria-live': 'polite', for: `${id}-filter` });
    bar.append(this.count);
    this.body = make('tbody', { role: 'rowgroup' });
    this.heads = columns.map((each, at) =>
      make(
        'th',
        { role: 'columnheader', class: each.numeric ? 'number' : null },
        make('button', { type: 'button', onclick: () => this.sortBy(at) }, each.title),
      ),
    );
    this.scroll = make(
      'div',
      {
        class: 'scroll',
        id: `${id}-grid`,
        tabindex: '0',
        role: 'grid',
        'aria-label': label,
        'aria-colcount': columns.length,
        onscroll: () => this.render(),
        onkeydown: (event) => this.#key(event),
      },
      make(
        'table',
        { role: 'presentation' },
        make('thead', { role: 'rowgroup' }, make('tr', { role: 'row', 'aria-rowindex': 1 }, ...this.heads)),
        this.body,
      ),
    );
    host.append(bar, this.scroll);
    new ResizeObserver(() => this.render()).observe(this.scroll);
    addEventListener('beforeprint', () => {
      this.render(PRINTED);
      if (this.order.length > PRINTED)
        this.count.textContent = `the first ${PRINTED} of ${number(this.order.length)} rows`;
    });
    addEventListener('afterprint', () => this.arrange());
    this.arrange();
  }

  #choice(bar, { label, value }) {
    const values = [...new Set(this.rows.map(value))].sort();
    const list = make(
      'select',
      { 'aria-label': label, onchange: () => this.arrange() },
      make('option', { value: '' }, `${label}: all`),
      ...values.map((each) => make('option', { value: each }, each)),
    );
    this.tools.push({ list, value });
    bar.append(list);
  }

  sortBy(at) {
    const down = this.sort.at === at ? !this.sort.down : Boolean(this.columns[at].numeric);
    this.sort = { at, down };
    this.arrange();
  }

  arrange() {
    const wanted = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.words ??= this.rows.map((row) =>
      this.columns
        .map((each) => this.#text(each, row))
        .join(' ')
        .toLowerCase(),
    );
    const kept = this.rows[this.order[this.at]];
    this.order = [];
    this.rows.forEach((row, at) => {
      const fits =
        wanted.every((word) => this.words[at].includes(word)) &&
        this.tools.every(({ list, value }) => !list.value || value(row) === list.value);
      if (fits) this.order.push(at);
    });
    const { at, down } = this.sort;
    if (at >= 0) {
      const { value } = this.columns[at];
      const keys = this.rows.map(value);
      this.order.sort((a, b) => (down ? -1 : 1) * compareValues(keys[a], keys[b]) || a - b);
    }
    this.heads.forEach((head, number) =>
      head.setAttribute('aria-sort', number !== at ? 'none' : down ? 'descending' : 'ascending'),
    );
    this.at = kept === undefined ? -1 : this.order.indexOf(this.rows.indexOf(kept));
    this.count.textContent =
      this.order.length === this.rows.length
        ? `${number(this.rows.length)} ${this.rows.length === 1 ? 'row' : 'rows'}`
        : `${number(this.order.length)} of ${number(this.rows.length)} rows`;
    this.scroll.setAttribute('aria-rowcount', this.order.length + 1);
    this.render();
  }

  #text(column, row) {
    return column.text ? column.text(row) : String(column.value(row) ?? '');
  }

  render(all = 0) {
    const first = all ? 0 : Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - SPARE);
    const last = Math.min(this.order.length, all || first + Math.ceil(this.scroll.clientHeight / ROW) + 2 * SPARE);
    const shown = [];
    for (let at = first; at < last; at += 1) shown.push(this.#row(at));
    this.body.replaceChildren(this.#space(first), ...shown, this.#space(all ? 0 : this.order.length - last));
    if (this.at >= first && this.at < last)
      this.scroll.setAttribute('aria-activedescendant', `${this.id}-row-${this.order[this.at]}`);
    else this.scroll.removeAttribute('aria-activedescendant');
  }

  #row(at) {
    const row = this.rows[this.order[at]];
    const cells = this.columns.map((each) => {
      const text = this.#text(each, row);
      return make(
        'td',
        { role: 'gridcell', class: each.numeric ? 'number' : null, title: each.numeric ? null : text },
        each.node ? each.node(row) : each.name ? bothEnds(text) : text,
      );
    });
    return make(
      'tr',
      {
        role: 'row',
        id: `${this.id}-row-${this.order[at]}`,
        'aria-rowindex': at + 2,
        'aria-selected': at === this.at ? 'true' : 'false',
        onclick: () => this.move(at, true),
        ondblclick: () => this.opened?.(row),
      },
      ...cells,
    );
  }

  #space(rows) {
    const filler = make('td', { colspan: this.columns.length });
    filler.style.height = `${rows * ROW}px`;
    return make('tr', { class: 'space', role: 'presentation' }, filler);
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target !== this.scroll) return;
    if (event.key in steps) {
      event.preventDefault();
      this.move(Math.max(0, Math.min(this.order.length - 1, this.at + steps[event.key])), true);
    } else if (event.key === 'Enter' && this.at >= 0) {
      event.preventDefault();
      this.opened?.(this.rows[this.order[this.at]]);
    }
  }

  move(at, tell) {
    if (at < 0 || at >= this.order.length) return;
    this.at = at;
    const top = at * ROW,
      seen = this.scroll.clientHeight - 2 * ROW;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top > this.scroll.scrollTop + seen) this.scroll.scrollTop = top - seen;
    this.render();
    if (tell) this.moved?.(this.rows[this.order[at]]);
  }

  // Shows a row of the data, where the filter leaves it.
  point(row) {
    this.move(this.order.indexOf(row), false);
  }
}

function compareValues(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === 'string' ? a.localeCompare(b, 'en', { numeric: true }) : a - b;
}
