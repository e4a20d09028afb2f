// The page of a check: the model beside fp32, which operation is why it errs, and every tensor.
const damage = (share) => (share === null ? '\u2013' : percent(share));
const range = (low, high) => (low === null || high === null ? '\u2013' : `${number(low, 3)} .. ${number(high, 3)}`);
const PLACES = {
  engine: 'stored by the engine',
  counted: 'stored by the engine in whole steps of quantisation',
  host: 'computed by the host in fp32',
  inside: 'inside of a task, never stored',
  merged: 'merged into another operation',
};
const GIVEN = { drawn: 'drawn inputs' };

function showVerdict() {
  document.title = `${data.name} beside fp32`;
  document.getElementById('title').textContent = document.title;
  document.getElementById('subtitle').textContent =
    `compiled for ${data.target}, precision ${data.precision}, run on ${GIVEN[data.inputs] ?? data.inputs}; openane ${data.openane}`;
  const place = section('verdict', 'Verdict', data.verdict);
  new Table(place, {
    id: 'outputs',
    label: 'Outputs',
    rows: data.outputs,
    columns: [
      { title: 'output', name: true, value: (output) => output.name },
      { title: 'error', numeric: true, value: (output) => output.error ?? Infinity, text: (output) => damage(output.error) },
      ...(data.outputs.some((output) => output.steps !== null)
        ? [{ title: 'steps off', numeric: true, value: (output) => output.steps ?? -1, text: (output) => output.steps ?? '\u2013' }]
        : []),
      { title: 'infinite or NaN', numeric: true, value: (output) => output.infinite },
      { title: 'verdict', value: (output) => (output.right ? 'right' : 'wrong') },
    ],
  });
  place.append(
    make(
      'p',
      { class: 'hint' },
      `Errors are relative: the root of the squared differences, by that of the values. An output within ${percent(data.close)}, or one step of quantisation, counts as right.`,
    ),
  );
}

function showFaults() {
  const place = section(
    'causes',
    'Causes',
    data.faults.length
      ? 'Operations that make infinities or lose digits, the first cause first.'
      : 'No operation makes infinities, and none adds an error that stands out.',
  );
  data.faults.forEach((found, at) =>
    place.append(
      make(
        'div',
        { class: 'block' },
        make('h3', {}, `${at + 1}. ${short(found.operation)}: ${found.cause}${at ? '' : ' (the first cause)'}`),
        make('p', {}, `${found.sentence[0].toUpperCase()}${found.sentence.slice(1)}.`),
        make('p', { class: 'hint' }, `What helps: ${found.help}.`),
      ),
    ),
  );
}

function showTensors() {
  const place = section(
    'operations',
    'Operations',
    'Every result of every operation: its range in fp32 and as the engine holds it, its error, what the operation and its task add to it, and what it inherits from the errors of its inputs.',
  );
  const share = (title, name) => ({
    title,
    numeric: true,
    value: (tensor) => tensor[name] ?? -1,
    text: (tensor) => damage(tensor[name]),
  });
  new Table(place, {
    id: 'operations',
    label: 'Operations',
    rows: data.tensors,
    tools: [{ label: 'places', value: (tensor) => PLACES[tensor.where] }],
    columns: [
      { title: 'operation', name: true, value: (tensor) => tensor.operation, text: (tensor) => short(tensor.operation) },
      { title: 'shape', value: (tensor) => tensor.shape.join('x') },
      { title: 'range in fp32', value: (tensor) => tensor.high, text: (tensor) => range(tensor.low, tensor.high) },
      {
        title: 'held by the engine',
        value: (tensor) => tensor.held_high,
        text: (tensor) => range(tensor.held_low, tensor.held_high),
      },
      share('error', 'error'),
      share('added here', 'added'),
      share('inherited', 'inherited'),
      { title: 'infinite', numeric: true, value: (tensor) => tensor.infinite },
      { title: 'where', value: (tensor) => PLACES[tensor.where] },
    ],
  });
}

showTheme();
showVerdict();
showFaults();
showTensors();
finishPage();
