// What frames a page: colours, the way to its sections, and hints that go away.
function showTheme() {
  const button = document.getElementById('theme');
  const dark = () =>
    (document.documentElement.dataset.theme ||
      (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  const label = () => {
    button.textContent = dark() ? 'light' : 'dark';
    button.setAttribute('aria-label', `Change to ${button.textContent} colours`);
  };
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
    label();
    redraw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    label();
    redraw();
  });
  let shown = null;
  addEventListener('beforeprint', () => {
    shown = document.documentElement.dataset.theme ?? '';
    document.documentElement.dataset.theme = 'light';
    redraw();
  });
  addEventListener('afterprint', () => {
    if (shown) document.documentElement.dataset.theme = shown;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
  label();
}

function finishPage() {
  document.getElementById('nav').append(...sections.map(([id, heading]) => make('a', { href: `#${id}` }, heading)));
  addEventListener('keydown', (event) => event.key === 'Escape' && hideTip());
  addEventListener(
    'scroll',
    () => {
      const field = document.activeElement;
      if (!tip.hidden && field?.matches('.field')) field.dispatchEvent(new FocusEvent('focus'));
      else hideTip();
    },
    { passive: true },
  );
  document.documentElement.dataset.ready = 'yes';
}
