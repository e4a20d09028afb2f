// The head of the report: what its numbers are, the summary, and the comparison with another run.
function showHead() {
  const profile = data.profile;
  document.getElementById('title').textContent = `${profile.name} on ${profile.chip}`;
  document.getElementById('subtitle').textContent =
    `${profile.generation}, planned for ${profile.target}, ${profile.clock_state} clock, ${profile.route} route; openane ${data.openane}`;
  const place = section('summary', 'Summary', 'One inference. Every number says what it is.');
  place.append(kindList());
  const notes = [...profile.notes, ...(profile.times_without ? [`Times are ${profile.times_without}`] : [])];
  if (notes.length) place.append(make('ul', { class: 'notes' }, ...notes.map((text) => make('li', {}, text))));
  const groups = new Map();
  data.cards.forEach((card) => groups.set(card.group, [...(groups.get(card.group) || []), card]));
  for (const [group, cards] of groups) {
    place.append(
      make('h3', {}, group),
      make(
        'dl',
        { class: 'cards' },
        ...cards.map((card) =>
          make(
            'div',
            {},
            make('dt', {}, card.title, kind(card.kind)),
            make('dd', {}, withUnit(card.value, card.unit)),
            make('dd', {}, card.note || '\u00a0'),
          ),
        ),
      ),
    );
  }
}

function showCompared() {
  const other = data.compare;
  if (!other) return;
  const named = `${other.name} on ${other.chip} (${other.clock_state} clock, ${other.route} route)`;
  const place = section(
    'compare',
    'Comparison',
    `Before: ${named}, its times ${other.times || 'not said to be anything'}. After: this profile.`,
    timeKind,
  );
  const change = (before, after) => {
    if (before === null || after === null) return before === null ? 'new' : 'gone';
    if (before === after) return '0%';
    return before ? `${after > before ? '+' : ''}${number((after / before - 1) * 100, 3)}%` : 'new';
  };
  const head = ['', 'before', 'after', 'change'].map((text, at) =>
    make('th', { class: at ? 'number' : null, scope: 'col' }, text),
  );
  place.append(
    make('h3', {}, 'Totals'),
    make(
      'div',
      { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Totals of both runs' },
      make(
        'table',
        { id: 'compare-totals' },
        make('thead', {}, make('tr', {}, ...head)),
        make(
          'tbody',
          {},
          ...other.totals.map(([what, unit, before, after]) =>
            make(
              'tr',
              {},
              make('th', { scope: 'row' }, what),
              ...[before, after].map((value) =>
                make(
                  'td',
                  { class: 'number' },
                  value === null ? '\u2013' : withUnit(value, what === 'share of the roofline' ? '%' : unit),
                ),
              ),
              make('td', { class: 'number' }, change(before, after)),
            ),
          ),
        ),
      ),
    ),
  );
  place.append(make('h3', {}, 'Operations of the model'));
  const more = ([, before, after]) => (after ?? 0) - (before ?? 0);
  const most = other.nodes.reduce((found, row) => Math.max(found, Math.abs(more(row))), 1e-12);
  new Table(place, {
    id: 'compare',
    label: 'Operations in both runs',
    rows: other.nodes,
    sort: { at: -1, down: true },
    columns: [
      { title: 'operation', name: true, value: (row) => row[0] },
      { title: 'before', numeric: true, value: (row) => row[1], text: (row) => time(row[1]) },
      { title: 'after', numeric: true, value: (row) => row[2], text: (row) => time(row[2]) },
      {
        title: 'difference',
        numeric: true,
        value: more,
        text: (row) => `${more(row) > 0 ? '+' : ''}${time(more(row))}`,
      },
      {
        title: 'change',
        numeric: true,
        value: (row) => (row[1] ? more(row) / row[1] : null),
        text: (row) => change(row[1], row[2]),
      },
      {
        title: 'size',
        value: (row) => Math.abs(more(row)),
        text: () => '',
        node: (row) => bar(Math.abs(more(row)) / most, more(row) > 0 ? 'more' : 'less'),
      },
    ],
  });
}

function showOperations() {
  if (!data.operations.length) return;
  const place = section('operations', 'Operations of the model', 'Where each runs, and why.', 'exact', engineKind);
  const times = data.profile.time_by_node_us;
  new Table(place, {
    id: 'operations',
    label: 'Operations of the model',
    rows: data.operations,
    tools: [{ label: 'where', value: (row) => row[1] }],
    columns: [
      { title: 'operation', name: true, value: (row) => row[0] },
      { title: 'where', value: (row) => row[1] },
      {
        title: 'time',
        numeric: true,
        value: (row) => (Object.hasOwn(times, row[0]) ? times[row[0]] : null),
        text: (row) => (Object.hasOwn(times, row[0]) ? time(times[row[0]]) : ''),
      },
      { title: 'reason', value: (row) => row[2] },
    ],
  });
}
