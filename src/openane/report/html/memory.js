// Which bytes of L2 and of DRAM are live in which task; tasks from left to right, addresses from top to bottom.
function showMemory() {
  const count = data.rows.length;
  if (!count) return;
  const { areas, lives, live, l2_size: l2Size } = data.memory;
  const place = section(
    'memory',
    'Memory',
    'From the task that writes bytes to the last that reads them, by the accesses of the operations. Padding counts, ' +
      'and so do the gaps of an access of more than 32 pieces; rings that L2 streams operands through do not.',
    'exact',
  );
  const highest = lives.reduce((most, [area, , high]) => (area === 0 ? Math.max(most, high) : most), 0) || 1;
  const total = areas.slice(1).reduce((sum, [, , size]) => sum + size, 0) || 1;
  const bands = [];
  areas.forEach(
    ([name, role, size], area) =>
      area &&
      bands.push({ area, name, role, size, height: Math.max(areas.length > 30 ? 5 : 15, (size / total) * 190) }),
  );
  let below = 4;
  bands.forEach((band) => {
    band.top = below;
    below += band.height + 3;
  });
  const bandOf = new Map(bands.map((band) => [band.area, band]));
  const x = (task, width) => GUTTER + (task / count) * (width - GUTTER - 8);
  const engine = (writer) => (writer < 0 ? 'host' : cell(writer, 'engine'));

  function block(context, width, life, top, height) {
    const [, , , begin, finish, writer] = life;
    const on = chosen.task >= begin && chosen.task <= finish;
    const [left, right] = [x(begin, width), x(finish + 1, width)];
    const small = right - left < 4 || height < 3;
    context.fillStyle = colour(on || small ? engine(writer) : `${engine(writer)}-soft`);
    context.fillRect(left, top, Math.max(0.8, right - left), Math.max(0.8, height));
    if (!small) {
      context.strokeStyle = colour(on ? 'page' : engine(writer));
      context.lineWidth = 0.7;
      context.strokeRect(left + 0.4, top + 0.4, right - left - 0.8, height - 0.8);
    }
    if (right - left > 60 && height > 13) {
      context.fillStyle = colour(on ? 'page' : 'text');
      context.fillText(
        clipped(context, writer < 0 ? 'from the host' : title(writer), right - left - 8),
        left + 4,
        top + height / 2,
      );
    }
  }
  function cursor(context, width, height) {
    if (chosen.task < 0) return;
    const left = x(chosen.task, width),
      right = x(chosen.task + 1, width);
    context.strokeStyle = colour('text');
    context.lineWidth = 1.6;
    context.strokeRect(left, 1, Math.max(1.5, right - left), height - 2);
  }
  const L2_HEIGHT = 210;
  place.append(
    make(
      'h3',
      {},
      `L2: ${bytes(highest)} of ${bytes(l2Size)} in use, at most ${bytes(data.cards.find((card) => card.title === 'L2 live at most').value)} live at once`,
    ),
  );
  const chip = canvas(
    place,
    L2_HEIGHT,
    'Live bytes of L2 by task. Left and right choose the task before or after.',
    (context, width) => {
      context.fillStyle = colour('soft');
      context.fillText('0', 8, 10);
      context.fillText(bytes(highest), 8, L2_HEIGHT - 10);
      lives.forEach(
        (life) =>
          life[0] === 0 &&
          block(
            context,
            width,
            life,
            4 + (life[1] / highest) * (L2_HEIGHT - 8),
            ((life[2] - life[1]) / highest) * (L2_HEIGHT - 8),
          ),
      );
      cursor(context, width, L2_HEIGHT);
    },
  );
  place.append(
    make(
      'h3',
      {},
      `DRAM: ${bytes(total)} in buffers, at most ${bytes(data.cards.find((card) => card.title === 'DRAM live at most').value)} live at once; constants ${bytes(data.profile.memory.constants)} and task descriptors ${bytes(data.profile.memory['task descriptors'])} besides`,
    ),
  );
  const memory = canvas(
    place,
    Math.max(24, below),
    'Live bytes of the buffers in DRAM by task.',
    (context, width, height) => {
      bands.forEach((band) => {
        context.fillStyle = colour('raised');
        context.fillRect(GUTTER, band.top, width - GUTTER - 8, band.height);
        if (band.height < 12) return;
        context.fillStyle = colour('soft');
        context.fillText(clipped(context, band.name, GUTTER - 14), 8, band.top + Math.min(band.height / 2, 9));
      });
      lives.forEach((life) => {
        const band = bandOf.get(life[0]);
        if (band)
          block(
            context,
            width,
            life,
            band.top + (life[1] / band.size) * band.height,
            ((life[2] - life[1]) / band.size) * band.height,
          );
      });
      cursor(context, width, height);
    },
  );
  chip.area.id = 'memory-canvas';
  const now = make('p', { id: 'memory-now', 'aria-live': 'polite' }, 'Choose a task to see what is live in it.');
  place.append(
    make(
      'div',
      { class: 'legend' },
      ...[
        ['neural', 'written by the neural engine'],
        ['planar', 'by the planar engine'],
        ['host', 'by the host'],
      ].map(([name, text]) => legend(name, text)),
    ),
    now,
    make('p', { class: 'hint' }, 'Keys: left and right choose tasks.'),
  );

  function tell(task) {
    const inside = lives.filter(([, , , begin, finish]) => task >= begin && task <= finish);
    const named = inside
      .filter(([area]) => area === 0)
      .sort((a, b) => b[2] - b[1] - (a[2] - a[1]))
      .slice(0, 6)
      .map(
        ([, low, high, , , writer]) =>
          `0x${low.toString(16)}..0x${high.toString(16)} of ${writer < 0 ? 'the host' : title(writer)}`,
      );
    const buffers = [...new Set(inside.filter(([area]) => area).map(([area]) => areas[area][0]))].slice(0, 8);
    now.textContent = `Task ${taskName(task)} (${title(task)}): ${bytes(live.L2[task])} live in L2${named.length ? ` (${named.join('; ')})` : ''}; ${bytes(live.DRAM[task])} in DRAM${buffers.length ? ` (${buffers.join(', ')})` : ''}.`;
  }
  for (const { area } of [chip, memory]) {
    const under = (event) => Math.floor(((event.offsetX - GUTTER) / (area.clientWidth - GUTTER - 8)) * count);
    area.addEventListener('click', (event) => choose(under(event), 'memory'));
    area.addEventListener('pointermove', (event) => {
      const task = under(event);
      if (task >= 0 && task < count)
        showTip(
          event.clientX,
          event.clientY,
          `task ${taskName(task)}: ${title(task)}`,
          `${bytes(live.L2[task])} live in L2, ${bytes(live.DRAM[task])} in DRAM`,
        );
      else hideTip();
    });
    area.addEventListener('pointerleave', hideTip);
    area.addEventListener('keydown', (event) => {
      const to = { ArrowRight: chosen.task + 1, ArrowLeft: Math.max(0, chosen.task - 1), Home: 0, End: count - 1 }[
        event.key
      ];
      if (to === undefined) return;
      event.preventDefault();
      choose(Math.min(count - 1, to), 'memory');
    });
  }
  watchers.push((task) => {
    chip.again();
    memory.again();
    tell(task);
  });
}
