// Numbers for people. What is not known is a dash.

export const DASH = "–";

const plain = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });

export function count(number) {
  return number === null || number === undefined ? DASH : plain.format(number);
}

export function score(number) {
  return number === null || number === undefined ? DASH : short.format(number);
}

// Seconds: 12 ms, 1.4 s, 48 s, 3 min 20 s, 2 h 5 min, 3 d 4 h.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return DASH;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(seconds / 3600);
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

// Like a duration, but without milliseconds: nobody's age is told so finely.
export function age(seconds) {
  return seconds === null || seconds === undefined ? DASH : duration(Math.round(seconds)).replace(/^0 ms$/, "0 s")
    .replace(/^(\d)\.0 s$/, "$1 s");
}

function pair(many, unit, few, smaller) {
  return few ? `${many} ${unit} ${few} ${smaller}` : `${many} ${unit}`;
}

export function bytes(number) {
  if (number === null || number === undefined || number < 0) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${at === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[at]}`;
}

// A group's name: its id, or what stands in for one.
export function nameOf(row) {
  if (row.id !== null) return row.id;
  return row.key.label === null ? "(by its question)" : `(${row.key.kind} ${row.key.label})`;
}

// Slots as ranges: 0–3, 7, 9.
export function slots(numbers, total) {
  const ranges = [];
  for (const number of numbers) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const shown = ranges.map(([low, high]) => (low === high ? `${low}` : `${low}–${high}`)).join(", ");
  return total > numbers.length ? `${shown} and ${plain.format(total - numbers.length)} more` : shown;
}
