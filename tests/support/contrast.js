// Texts whose contrast with what is behind them is below 4.5 (WCAG AA), and pairs of colours that canvases use.
const numbers = (text) => {
  const found = text.match(/[\d.]+/g).map(Number);
  return text.startsWith('color(srgb') ? [...found.slice(0, 3).map((each) => each * 255), ...found.slice(3)] : found;
};
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const box = at.tagName === 'g' && at.querySelector('rect.box');
    if (box) return numbers(getComputedStyle(box).fill);
    const colour = numbers(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'].includes(element.tagName)
    || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const ink = light(numbers(element.tagName === 'text' ? style.fill : style.color)), paper = light(ground(element));
  const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  if (ratio < 4.5) found.push([element.tagName,
    element.className.baseVal ?? element.className, element.textContent.slice(0, 30), ratio]);
}
const named = (name) => {
  const probe = document.createElement('i');
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const colour = numbers(getComputedStyle(probe).color);
  probe.remove();
  return light(colour);
};
for (const [ink, paper] of [['page', 'neural'], ['page', 'planar'], ['page', 'coefficients'], ['page', 'dispatch'],
  ['page', 'host'], ['soft', 'page'], ['text', 'neural-soft'], ['text', 'planar-soft'], ['text', 'host-soft']]) {
  const [a, b] = [named(ink), named(paper)];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push(['canvas', ink, paper, ratio]);
}
return found;
