// The server's page: asks /v1/status every two seconds and shows what it says. What comes from outside is only ever set as
// text, never as markup.

import { banded, bars, lines } from "./charts.js";
import { DASH, age, bytes, count, duration, nameOf, score, slots } from "./format.js";

const EVERY_MS = 2000;
const PATIENCE_MS = 10000;

const byId = (id) => document.getElementById(id);
let paused = false;
let timer = 0;
let asking = false;
let lastHeard = null;
let showTexts = false;

function make(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Changes a text only where it differs, so that a selection stays and nothing is announced twice.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// --- lists that keep their elements -----------------------------------------------------------------------------

// Brings the children of a parent in line with `rows`: one child for each key, in order; kept ones are filled anew.
function sync(parent, rows, keyOf, create, fill) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = null;
  for (const row of rows) {
    const key = String(keyOf(row));
    let child = known.get(key);
    if (child) known.delete(key);
    else {
      child = create(row);
      child.dataset.key = key;
    }
    fill(child, row);
    const next = before ? before.nextSibling : parent.firstChild;
    if (child !== next) parent.insertBefore(child, next);
    before = child;
  }
  for (const gone of known.values()) gone.remove();
}

// `facts`: [name, text, kind, share]; a share of 0 to 1 is shown as a meter too.
function showFacts(list, facts) {
  const create = ([name]) => {
    const line = make("div");
    line.append(make("dt", name), make("dd"));
    line.lastChild.append(make("span"));
    return line;
  };
  sync(list, facts, ([name]) => name, create, (line, [name, text, kind, share]) => {
    line.dataset.kind = kind || "";
    const said = line.lastChild;
    say(said.firstChild, text);
    if (share === undefined) return;
    if (said.children.length === 1) said.append(make("meter", undefined, { "aria-label": `${name}: share in use` }));
    said.lastChild.value = share;
  });
}

// `cells`: a function from a row to its cells, each a text or a function that fills the cell.
function showTable(id, rows, keyOf, cells) {
  const table = byId(id);
  const labels = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const create = () => {
    const line = make("tr", undefined, { role: "row" });
    for (const label of labels) {
      const cell = make("td", undefined, { role: "cell", "data-label": label });
      cell.append(make("div"));
      line.append(cell);
    }
    return line;
  };
  sync(table.tBodies[0], rows, keyOf, create, (line, row) => {
    cells(row).forEach((content, at) => {
      const holder = line.cells[at].firstChild;
      if (typeof content === "function") content(holder);
      else say(holder, content);
    });
  });
  table.hidden = rows.length === 0;
  table.nextElementSibling.hidden = rows.length !== 0;
}

// A way to fill a cell with a meter and a text.
function measured(share, text, label) {
  return (holder) => {
    if (!holder.firstChild) holder.append(make("meter", undefined, { "aria-label": label }), make("span"));
    holder.firstChild.value = share;
    say(holder.lastChild, text);
  };
}

// A way to fill a cell with a text that has a sign and a colour.
function marked(kind, text) {
  const sign = { good: "✓ ", bad: "✕ ", warn: "! " }[kind] || "";
  return (holder) => {
    holder.className = kind;
    say(holder, sign + text);
  };
}

// A way to fill a cell with a group's name and, where they may be shown, its texts.
function named(row) {
  const name = nameOf(row) + (row.attempt ? ` · attempt ${row.attempt}` : "");
  return (holder) => {
    if (!holder.firstChild) {
      holder.append(make("span", undefined, { class: "id" }));
      if (showTexts && "missing" in row) holder.append(textsOf(row.run, name));
    }
    say(holder.firstChild, name);
  };
}

function textsOf(run, name) {
  const details = make("details");
  details.append(make("summary", "Texts", { "aria-label": `Texts of ${name}` }), make("dl", undefined, { class: "texts" }));
  details.addEventListener("toggle", () => details.open && readTexts(run, details.lastChild));
  return details;
}

async function readTexts(run, list) {
  const line = (term, text) => list.append(make("dt", term), make("dd", text, { tabindex: "0" }));
  const reply = await fetch(`v1/status/texts/${run}`, { cache: "no-store" }).catch(() => null);
  list.replaceChildren();
  if (!reply || !reply.ok) {
    line("Texts", "They are gone: the group has its outcome.");
    return;
  }
  const said = await reply.json();
  for (const message of said.question) line(`Question (${message.role})`, message.content);
  if (said.principle !== null) line("Principle", said.principle);
  for (const answer of said.answers) line(`Answer ${answer.slot}`, answer.text);
  if (said.cut) list.append(make("dt", "Long texts are cut."));
}

// --- what is shown ----------------------------------------------------------------------------------------------

const OUTCOMES = {
  completed: "completed", judge_failed: "the judge failed", collection_timeout: "members did not come in time",
  superseded: "replaced by a newer attempt", internal: "internal error", shutting_down: "the server stopped",
};
const ERRORS = {
  unreadable: "reply without a readable verdict", unfinished: "unfinished or empty reply",
  transport: "no usable reply", rejected: "request rejected", deadline: "no reply in time",
};

function sum(values) {
  return values.reduce((all, each) => all + each, 0);
}

function showState(server) {
  const state = byId("state");
  const [kind, text] = server.stopping
    ? ["warn", "stopping"]
    : server.judge_reachable === null
      ? ["unknown", "asking the judge …"]
      : server.judge_reachable
        ? ["good", "ready"]
        : ["bad", `not ready: ${server.judge_problem}`];
  state.dataset.state = kind;
  say(state, text);
  say(byId("version"), server.version);
  say(byId("uptime"), `up for ${age(server.uptime_s)}`);
  byId("logout").hidden = !server.login;
  showTexts = server.show_texts;
}

function showNow(groups, hour) {
  const failed = hour.judge_failed + hour.group_failed;
  const tiles = [
    ["collecting", count(groups.active.collecting), groups.active.collecting ? "busy" : ""],
    ["at the judge", count(groups.active.judging), groups.active.judging ? "busy" : ""],
    ["completed, last hour", count(hour.completed), hour.completed ? "good" : ""],
    ["failed, last hour", count(failed), failed ? "bad" : ""],
    ["callers waiting", count(groups.callers), groups.callers ? "busy" : ""],
  ];
  if (groups.active.held) tiles.splice(2, 0, ["held by a checkpoint", count(groups.active.held), "busy"]);
  if (groups.at_once) tiles.push(["judged at once", count(groups.at_once), "busy"]);
  showFacts(byId("tiles"), tiles);
}

function showActive(groups) {
  const { collecting, judging } = groups.oldest;
  const more = (id, rows, all) => say(byId(id), all > rows.length ? `${count(rows.length)} oldest of ${count(all)}` : "");
  more("collecting-count", collecting, groups.active.collecting);
  more("judging-count", judging, groups.active.judging);
  showTable("collecting", collecting, (row) => row.run, (row) => [
    named(row),
    measured(row.came / row.size, `${row.came} of ${row.size}`, "members that came"),
    slots(row.missing, row.missing_count),
    age(row.age_s),
    row.left_s < 60 ? marked("warn", age(row.left_s)) : marked("", age(row.left_s)),
    count(row.callers),
  ]);
  showTable("judging", judging, (row) => row.run, (row) => [
    named(row), count(row.size), age(row.judging_s),
    row.left_s < 60 ? marked("warn", age(row.left_s)) : marked("", age(row.left_s)), count(row.callers),
  ]);
}

function showHour({ minutes, over_all: all }) {
  const failed = minutes.judge_failed.map((each, at) => each + minutes.group_failed[at]);
  const words = {
    groups: `${count(all.completed)} completed, ${count(sum(failed))} failed (hatched)`,
    rewards: all.rewards
      ? `${score(all.reward_mean)} on average, ${score(all.reward_min)} to ${score(all.reward_max)} (${count(all.rewards)})`
      : "none yet",
    latency: all.latency_p50_s === null
      ? "no reply yet"
      : `median ${duration(all.latency_p50_s)}, 95 % within ${duration(all.latency_p95_s)} (dashed)`,
  };
  for (const [name, text] of Object.entries(words)) say(byId(`${name}-summary`), text);
  const high = (value) => (value < 10 && value % 1 ? value.toFixed(1) : count(Math.round(value)));
  bars(byId("groups-chart"), `Groups a minute: ${words.groups}`, minutes.completed, failed, high);
  banded(byId("rewards-chart"), `Rewards: ${words.rewards}`, minutes.reward_mean, minutes.reward_min, minutes.reward_max, high);
  lines(byId("latency-chart"), `Judge latency: ${words.latency}`, minutes.latency_p50_s, minutes.latency_p95_s,
    (value) => (value ? duration(value) : "0"));
  if (byId("by-minute").open) showMinutes(minutes, failed);
}

function showMinutes(minutes, failed) {
  const last = minutes.completed.length - 1;
  const rows = [];
  for (let at = last; at >= 0; at -= 1) {
    if (minutes.completed[at] || failed[at] || minutes.tries[at]) rows.push(at);
  }
  showTable("minutes", rows, (at) => at, (at) => [
    at === last ? "now" : `${last - at} min ago`, count(minutes.completed[at]), count(failed[at]),
    score(minutes.reward_mean[at]), duration(minutes.latency_p50_s[at]), duration(minutes.latency_p95_s[at]),
    count(minutes.errors[at]),
  ]);
}

// Errors of the same kind in a row as one, with the time of the last.
function gathered(errors) {
  const rows = [];
  for (const error of errors) {
    const last = rows[rows.length - 1];
    if (last && last.result === error.result && last.status === error.status) last.times += 1;
    else rows.push({ ...error, times: 1 });
  }
  return rows;
}

function showJudge(judge, hour) {
  const tries = sum(Object.values(judge.tries));
  showFacts(byId("judge"), [
    ["Calls in flight", `${count(judge.in_flight)} of ${count(judge.places)}`, "", judge.in_flight / judge.places],
    ["Calls waiting for a place", count(judge.waiting)],
    ["Verdicts", count(judge.calls.verdict)],
    ["Requests, errors among them", `${count(tries)}, ${count(tries - judge.tries.ok)}`],
    ["Errors in the last hour", count(hour.errors)],
    ["Unreadable replies", count(judge.tries.unreadable)],
    ["Replies with differing verdicts", count(judge.ambiguous_replies)],
    ["Default scores given", count(judge.default_scores)],
    ["Groups of equal rewards", count(judge.flat_groups)],
    ["Calls saved by equal answers", count(judge.calls_saved)],
    ["Tokens read and written", `${count(judge.tokens.prompt)}, ${count(judge.tokens.completion)}`],
  ]);
  showTable("errors", gathered(judge.errors).slice(0, 8).map((row, at) => ({ ...row, at })), (row) => row.at, (row) => [
    `${age(row.ago_s)} ago`,
    marked("bad", (ERRORS[row.result] || row.result) + (row.times > 1 ? ` (${row.times} times)` : "")),
    row.status === null ? DASH : String(row.status),
  ]);
  showTable("failures", judge.failures.slice(0, 8), (row) => judge.failures.indexOf(row), (row) => [
    `${age(row.ago_s)} ago`, row.group + (row.attempt ? ` · attempt ${row.attempt}` : ""), marked("bad", row.why),
  ]);
}

function showRest(memory, retention, groups, hour) {
  showFacts(byId("memory"), [
    ["Memory of the server", bytes(memory.resident_bytes)],
    ["At most so far", bytes(memory.peak_bytes)],
    ["Bodies waiting in memory", bytes(memory.spool_memory_bytes)],
    ["Bodies waiting on disk", `${bytes(memory.spool_disk_bytes)} in ${count(memory.spool_files)} files`],
    ["Free on that disk", bytes(memory.spool_free_bytes)],
    ["Answers held for judging", count(memory.held_answers)],
    ["Bodies on their way in", count(groups.incoming_bodies)],
    ["Latest the loop was, last hour", duration(hour.lag_max_s)],
  ]);
  const share = (name, many, most) => [name, `${count(many)} of ${count(most)}`, "", many / most];
  showFacts(byId("retention"), [
    share("Results", retention.results, retention.max_results),
    share("Attempt records", retention.attempt_records, retention.max_attempt_records),
    ["Kept for open sessions", count(retention.spared)],
    ["Kept for", retention.ttl_s === null ? "no time limit" : age(retention.ttl_s)],
  ]);
  const ended = Object.entries(groups.ended).filter(([, many]) => many);
  showFacts(byId("totals"), [
    ["Attempts of groups", count(groups.formed)],
    ...ended.map(([outcome, many]) => [`– ${OUTCOMES[outcome] || outcome}`, count(many)]),
    ["Members", count(groups.members)],
    ["Answers alone in their group", count(groups.alone)],
    ["Exact retries", count(sum(Object.values(groups.retries)))],
  ]);
}

function showFinished(rows) {
  showTable("finished", rows, (row) => row.run, (row) => [
    named(row),
    row.failure === null
      ? marked(row.default_scores ? "warn" : "good", row.default_scores ? "completed with default scores" : "completed")
      : marked("bad", OUTCOMES[row.failure] || row.failure),
    row.reward_mean === null ? DASH : `${score(row.reward_mean)} (${score(row.reward_min)} to ${score(row.reward_max)})`,
    row.came === row.size ? count(row.size) : `${row.came} of ${row.size}`,
    duration(row.took_s),
    `${age(row.finished_s_ago)} ago`,
  ]);
}

function show(status) {
  const all = status.hour.over_all;
  showState(status.server);
  showNow(status.groups, all);
  showActive(status.groups);
  showHour(status.hour);
  showJudge(status.judge, all);
  showRest(status.memory, status.retention, status.groups, all);
  showFinished(status.groups.finished);
}

// --- asking -----------------------------------------------------------------------------------------------------

function lost(text) {
  byId("state").dataset.state = "bad";
  say(byId("state"), text);
}

async function ask() {
  if (asking) return;
  asking = true;
  try {
    const reply = await fetch("v1/status", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (reply.status === 401) {
      window.location.assign("login");
      return;
    }
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    show(await reply.json());
    lastHeard = Date.now();
    showAge();
  } catch (error) {
    lost(error instanceof TypeError || error.name === "TimeoutError" ? "the server does not answer" : String(error.message));
  } finally {
    asking = false;
    plan();
  }
}

function plan() {
  window.clearTimeout(timer);
  if (!paused && !document.hidden) timer = window.setTimeout(ask, EVERY_MS);
}

function showAge() {
  const seconds = (Date.now() - (lastHeard ?? 0)) / 1000;
  const words = lastHeard === null ? "" : paused ? `· paused, as of ${age(seconds)} ago` : "· live";
  say(byId("updated"), words);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  showAge();
  if (paused) plan();
  else ask();
});
byId("by-minute").addEventListener("toggle", ask);
document.addEventListener("visibilitychange", () => (document.hidden ? plan() : paused || ask()));
window.setInterval(showAge, 1000);
ask();
