"use strict";
// Texts of the file are set as text, never as markup, and never go into a figure.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displaylogo: false, responsive: true, displayModeBar: false };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let chosen = 0;

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const number = (value, digits = 2) => (value === null ? "–" : value.toFixed(digits));

  function themed(layout) {
    const axis = { gridcolor: style("--rule"), zerolinecolor: style("--rule"), linecolor: style("--rule") };
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: style("--ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
      hoverlabel: { bgcolor: style("--card"), bordercolor: style("--rule"), font: { color: style("--ink") } },
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
  }

  function draw(id, traces, layout) {
    const place = document.getElementById(id);
    if (place) Plotly.react(place, traces, themed(layout), config);
  }

  // Rows: the answer that was shown first; columns: the second. Several verdicts on one pair are averaged.
  function matrix(group) {
    const size = group.members.length;
    const cells = Array.from({ length: size }, () => Array.from({ length: size }, () => []));
    for (const verdict of group.verdicts) cells[verdict[0]][verdict[1]].push(verdict);
    const mean = (found, at) => found.reduce((sum, verdict) => sum + verdict[at], 0) / found.length;
    const z = cells.map((row) => row.map((found) => (found.length ? mean(found, 5) : null)));
    const said = (found) => (found.length ? `${number(mean(found, 2), 1)} : ${number(mean(found, 3), 1)}` : "");
    const text = cells.map((row) => row.map(said));
    const hover = cells.map((row) => row.map((found) => (found.length ? `${said(found)}, ranking ${number(mean(found, 4), 1)}` + (found.length > 1 ? `, mean of ${found.length}` : "") : "not judged")));
    const most = Math.max(1, ...z.flat().map((value) => Math.abs(value ?? 0)));
    const labels = group.members.map((member) => `#${member.slot}`);
    const fits = size <= 10;
    draw("plot-matrix", [{
      type: "heatmap", z, x: labels, y: labels, text, customdata: hover,
      texttemplate: fits ? "%{text}" : "", hovertemplate: "first %{y}, second %{x}<br>%{customdata}<extra></extra>",
      zmin: -most, zmax: most, xgap: 2, ygap: 2, hoverongaps: false,
      colorscale: [[0, "#bf6516"], [0.5, style("--middle")], [1, "#3576cf"]],
      colorbar: { thickness: 12, outlinewidth: 0, title: { text: "lead", side: "right" } },
    }], {
      height: Math.min(560, 150 + 44 * size), margin: { l: 70, r: 10, t: 10, b: 50 },
      xaxis: { title: { text: "shown second" }, type: "category", showgrid: false },
      yaxis: { title: { text: "shown first" }, type: "category", autorange: "reversed", showgrid: false },
    });
  }

  function turn(message) {
    const shown = element("div", undefined, "turn");
    shown.append(element("b", message.role), element("pre", message.content));
    return shown;
  }

  function answer(member) {
    const card = element("article", undefined, "answer");
    const head = element("h4");
    const sure = member.error === null ? "" : ` ± ${number(member.error)}`;
    head.append(element("span", `#${member.slot}`), element("span", `${number(member.reward)}${sure}`));
    const cut = member.answer.length < member.length ? `, the first ${member.answer.length} shown` : "";
    const thought = member.reasoning ? `, after ${member.reasoning} of reasoning` : "";
    card.append(head, element("small", `${member.length} characters${cut}${thought}`));
    card.append(element("pre", member.length ? member.answer : "(empty)"));
    return card;
  }

  function show(index) {
    chosen = index;
    const group = data.groups[index];
    document.getElementById("chooser").value = String(index);
    document.getElementById("kinds").textContent = `Here as: ${group.kinds.join(", ")}.`;
    document.getElementById("question").replaceChildren(...group.question.map(turn));
    const hidden = group.size - group.members.length;
    const notes = ["Answers stand from the best reward to the worst."];
    if (group.members.some((member) => member.error !== null)) notes.push("± is a reward's standard error.");
    if (hidden) notes.push(`${hidden} answers between the best and the worst are not shown.`);
    if (group.note) notes.push(group.note);
    document.getElementById("group-note").textContent = notes.join(" ");
    document.getElementById("answers").replaceChildren(...group.members.map(answer));
    matrix(group);
  }

  function fillChooser() {
    const chooser = document.getElementById("chooser");
    const kinds = new Map();
    data.groups.forEach((group, index) => {
      const kind = group.kinds[0];
      if (!kinds.has(kind)) kinds.set(kind, element("optgroup"));
      const name = group.id === null ? "" : ` (${group.id})`;
      const option = element("option", `line ${group.line}${name}`.slice(0, 100));
      option.value = String(index);
      kinds.get(kind).append(option);
    });
    for (const [kind, options] of kinds) {
      options.label = kind;
      chooser.append(options);
    }
    chooser.addEventListener("change", () => show(Number(chooser.value)));
    const step = (by) => show((chosen + by + data.groups.length) % data.groups.length);
    document.getElementById("previous").addEventListener("click", () => step(-1));
    document.getElementById("next").addEventListener("click", () => step(1));
  }

  function drawAll() {
    for (const [name, figure] of Object.entries(data.figures)) draw(`plot-${name}`, figure.data, figure.layout);
    if (data.groups.length) show(chosen);
  }

  if (data.groups.length) fillChooser();
  drawAll();
  dark.addEventListener("change", drawAll);
})();
