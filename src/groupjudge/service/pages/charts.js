// Three small charts of the last hour. What they show is also in their labels and in the table below them.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 360, HEIGHT = 130, LEFT = 38, RIGHT = 4, TOP = 8, BOTTOM = 20;

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

function canvas(label) {
  return element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
}

function x(minute, of) {
  return LEFT + ((minute + 0.5) * (WIDTH - LEFT - RIGHT)) / of;
}

function scale(low, high) {
  const span = high - low || 1;
  return (value) => HEIGHT - BOTTOM - ((value - low) / span) * (HEIGHT - TOP - BOTTOM);
}

// A round number that is not below the value: 1, 2 or 5 times a power of ten.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power * 1.0000001) return step * power;
  return 10 * power;
}

function frame(svg, low, high, shown) {
  const y = scale(low, high);
  for (const value of [low, (low + high) / 2, high]) {
    element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }, svg);
    const text = element("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, svg);
    text.textContent = shown(value);
  }
  for (const [place, words, anchor] of [[LEFT, "60 min ago", "start"], [WIDTH - RIGHT, "now", "end"]]) {
    element("text", { x: place, y: HEIGHT - 5, "text-anchor": anchor }, svg).textContent = words;
  }
  return y;
}

// One upon the other: first the good ones, then the bad ones.
export function bars(holder, label, good, bad, shown) {
  const svg = canvas(label);
  const hatch = element("pattern", { id: "hatch", width: 4, height: 4, patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)" }, svg);
  element("rect", { class: "hatch-back", width: 4, height: 4 }, hatch);
  element("rect", { class: "bar-bad", width: 2, height: 4 }, hatch);
  const high = roundUp(Math.max(2, ...good.map((each, minute) => each + bad[minute])));
  const y = frame(svg, 0, high, shown);
  const width = ((WIDTH - LEFT - RIGHT) / good.length) * 0.8;
  good.forEach((each, minute) => {
    const left = x(minute, good.length) - width / 2;
    const box = (name, from, to) =>
      element("rect", { class: name, x: left, width, y: y(to), height: Math.max(0, y(from) - y(to)) }, svg);
    if (each) box("bar", 0, each);
    if (bad[minute]) box("hatched", each, each + bad[minute]);
  });
  holder.replaceChildren(svg);
}

function runs(values) {
  const found = [];
  values.forEach((value, minute) => {
    if (value === null) return;
    const last = found[found.length - 1];
    if (last && last[last.length - 1][0] === minute - 1) last.push([minute, value]);
    else found.push([[minute, value]]);
  });
  return found;
}

function line(svg, values, y, name, dot) {
  for (const run of runs(values)) {
    if (run.length === 1) {
      element("circle", { class: dot, cx: x(run[0][0], values.length), cy: y(run[0][1]), r: 2.5 }, svg);
    } else {
      const points = run.map(([minute, value]) => `${x(minute, values.length)},${y(value)}`).join(" ");
      element("polyline", { class: name, points }, svg);
    }
  }
}

// A line of means in a band from the least to the greatest.
export function banded(holder, label, means, lows, highs, shown) {
  const svg = canvas(label);
  const known = [...lows, ...highs].filter((value) => value !== null);
  const low = known.length ? Math.floor(Math.min(...known)) : 0;
  const high = known.length ? Math.max(low + 1, Math.ceil(Math.max(...known))) : 5;
  const y = frame(svg, low, high, shown);
  const width = ((WIDTH - LEFT - RIGHT) / means.length) * 0.98;
  means.forEach((mean, minute) => {
    if (mean === null) return;
    const height = Math.max(1, y(lows[minute]) - y(highs[minute]));
    element("rect", { class: "band", x: x(minute, means.length) - width / 2, width, y: y(highs[minute]), height }, svg);
  });
  line(svg, means, y, "line", "dot");
  holder.replaceChildren(svg);
}

// Two lines, the upper one dashed.
export function lines(holder, label, lower, upper, shown) {
  const svg = canvas(label);
  const known = upper.filter((value) => value !== null);
  const y = frame(svg, 0, known.length ? roundUp(Math.max(...known)) : 1, shown);
  line(svg, upper, y, "line-high", "dot-high");
  line(svg, lower, y, "line", "dot");
  holder.replaceChildren(svg);
}
