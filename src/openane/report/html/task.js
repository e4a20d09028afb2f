// What a profile's parts say of tasks: their figures, their names, and the one that is chosen.
const column = Object.fromEntries(data.columns.map((name, at) => [name, at]));
const cell = (task, name) => data.rows[task][column[name]];

const taskName = (task) =>
  data.profile.programs > 1 ? `${cell(task, 'program')}.${cell(task, 'task')}` : `${cell(task, 'task')}`;
const title = (task) => short(cell(task, 'node') || cell(task, 'operation'));
const timeKind = data.profile.kinds.times;
const engineKind = data.profile.kinds.engine;

// The chosen task: every part that shows tasks is told of it.
const chosen = { task: -1 };
const watchers = [];
function choose(task, from = null) {
  if (task < 0 || task >= data.rows.length || task === chosen.task) return;
  chosen.task = task;
  watchers.forEach((watcher) => watcher(task, from));
}

function showTask(x, y, task) {
  showTip(
    x,
    y,
    `task ${taskName(task)}: ${title(task)}`,
    data.words[task],
    `${time(cell(task, 'time_us'))} (${percent(cell(task, 'share'))}), bound by ${cell(task, 'bound')}, from ${time(cell(task, 'start_us'), 7)}`,
  );
}
