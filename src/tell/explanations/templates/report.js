"use strict";
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const redraw = [];

  const nameTheme = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    nameTheme();
    redraw.forEach((draw) => draw());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    nameTheme();
    redraw.forEach((draw) => draw());
  });
  nameTheme();

  const holder = document.getElementById("map-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const canvas = document.getElementById("map-canvas");
  const tip = document.getElementById("map-tip");
  const panel = document.getElementById("map-panel");
  const live = document.getElementById("map-live");
  const colorBy = document.getElementById("map-color");
  const scale = document.getElementById("map-scale");
  const legend = [...document.querySelectorAll("[data-cluster]")];
  const pen = canvas.getContext("2d");
  const n = data.rows.length;
  let chosen = null;   // cluster
  let pointed = null;  // place in the sample
  let column = null;   // colour of a cell, where one column gives the colours
  let box = { width: 0, height: 0, margin: 0, across: 1, up: 1 };
  const overview = [...panel.childNodes];

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function mix(share) {  // unclear rows and high values orange, clear rows and low values blue
    const from = [231, 99, 0], to = [63, 144, 218], t = Math.min(1, share / 100);
    return `rgb(${from.map((v, i) => Math.round(v + t * (to[i] - v))).join(",")})`;
  }
  function lift(color) {  // deep colours are too dim on dark ground
    if (!dark()) return color;
    const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    return `rgb(${parts.map((v) => Math.round(v + 0.25 * (255 - v))).join(",")})`;
  }
  function colorOf(i) {
    if (colorBy.value === "label") {
      return data.known[i] === null ? grey() : lift(data.labelColors[data.known[i]]);
    }
    if (colorBy.value === "clear") return mix(data.clear[i]);
    if (column) return column(data.values[i][+colorBy.value]);
    return lift(data.colors[data.cluster[i]]);
  }

  const grey = () => dark() ? "#4a505b" : "#c8cacd";
  const told = (value) => typeof value === "number"
    ? value.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) >= 1000 ? 15 : 4 }) : value;

  // How the values of one column are coloured, and what the colours mean.
  function columnColors(f) {
    const cells = data.values.map((row) => row[f]).filter((value) => value !== null);
    const gap = cells.length < n ? [[grey, "missing"]] : [];
    if (cells.every((value) => typeof value === "number")) {
      const sorted = [...new Set(cells)].sort((a, b) => a - b);
      const rank = new Map(sorted.map((value, at) => [value, (100 * at) / Math.max(1, sorted.length - 1)]));
      const ends = sorted.length ? [[() => mix(100), `lowest ${told(sorted[0])}`],
        [() => mix(0), `highest ${told(sorted[sorted.length - 1])}`]] : [];
      return [(value) => value === null ? grey() : mix(100 - rank.get(value)), [...ends, ...gap]];
    }
    const counts = new Map();
    cells.forEach((value) => counts.set(value, (counts.get(value) ?? 0) + 1));
    const levels = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, data.levelColors.length);
    const color = new Map(levels.map((value, at) => [value, data.levelColors[at]]));
    const others = counts.size > levels.length ? [[grey, "others"]] : [];
    return [(value) => color.has(value) ? lift(color.get(value)) : grey(),
      [...levels.map((value) => [() => color.get(value), String(value)]), ...others, ...gap]];
  }

  function paint() {  // after another choice of colours, or another theme
    const isColumn = /^\d+$/.test(colorBy.value);
    const [colors, meaning] = isColumn ? columnColors(+colorBy.value) : [null, []];
    column = colors;
    scale.hidden = !isColumn;
    scale.replaceChildren(...meaning.flatMap(([color, word]) => {
      const dot = text("span", "", "dot");
      dot.style.setProperty("--c", color());
      return [dot, text("span", word)];
    }));
    draw();
  }

  function measure() {
    const ratio = devicePixelRatio || 1;
    const frame = canvas.getBoundingClientRect();
    canvas.width = Math.round(frame.width * ratio);
    canvas.height = Math.round(frame.height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const margin = 20;
    box = { width: frame.width, height: frame.height, margin,
      across: (frame.width - 2 * margin) / 10000, up: (frame.height - 2 * margin) / 10000 };
  }

  const place = ([x, y]) => [box.margin + x * box.across, box.height - box.margin - y * box.up];

  function draw() {
    measure();
    pen.clearRect(0, 0, box.width, box.height);
    const radius = Math.max(1.6, Math.min(4.5, 130 / Math.sqrt(n)));
    const order = [...Array(n).keys()].sort((a, b) =>
      (data.cluster[a] === chosen) - (data.cluster[b] === chosen));
    for (const i of order) {
      const [x, y] = place(data.places[i]);
      pen.globalAlpha = chosen === null || data.cluster[i] === chosen ? 0.85 : 0.12;
      pen.fillStyle = colorOf(i);
      pen.beginPath();
      pen.arc(x, y, radius, 0, 6.2832);
      pen.fill();
    }
    pen.globalAlpha = 1;
    drawCenters();
    if (pointed !== null) ring(place(data.places[pointed]), radius + 4);
  }

  function ring([x, y], radius) {
    pen.strokeStyle = css("--ink");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 6.2832);
    pen.stroke();
  }

  function drawCenters() {
    pen.font = "700 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const many = data.centers.length > 24;
    data.centers.forEach((center, j) => {
      if (many && chosen !== null && chosen !== j) return;
      const [x, y] = place(center);
      const half = (pen.measureText(String(j)).width + 9) / 2;
      pen.fillStyle = css("--card");
      pen.strokeStyle = lift(data.colors[j]);
      pen.lineWidth = 2;
      pen.globalAlpha = chosen === null || chosen === j ? 0.94 : 0.35;
      pen.beginPath();
      pen.roundRect(x - half, y - 9, 2 * half, 18, 6);
      pen.fill();
      pen.stroke();
      pen.fillStyle = css("--ink");
      pen.fillText(String(j), x, y + 0.5);
    });
    pen.globalAlpha = 1;
  }

  function nearest(x, y, reach) {
    let best = null, least = reach * reach;
    for (let i = 0; i < n; i++) {
      const [a, b] = place(data.places[i]);
      const d = (a - x) ** 2 + (b - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  function text(tag, content, className) {
    const element = document.createElement(tag);
    element.textContent = content;  // never markup: names come from data
    if (className) element.className = className;
    return element;
  }

  function thumb(i, width) {
    const { columns, lines } = canvas.dataset;
    if (!columns) return null;
    const element = text("span", "", "thumb hover-sheet");
    const at = (value, count) => `${count > 1 ? (100 * value) / (count - 1) : 0}%`;
    element.style.setProperty("--w", width);
    element.style.setProperty("--p", `${at(i % columns, +columns)} ${at(Math.floor(i / columns), +lines)}`);
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", `picture of ${data.titles[i]}`);
    return element;
  }

  const heading = (name) => name.charAt(0).toUpperCase() + name.slice(1);
  const words = (i) => `${data.titles[i]}, ${data.names[data.cluster[i]]}`
    + (data.known && data.known[i] !== null ? `, labelled ${data.labels[data.known[i]]}` : "")
    + (data.centers.length > 1 ? `. ${data.clear[i]} % clear of ${data.names[data.runnerUp[i]]}.` : ".");

  function describe(i, width, columns) {
    const parts = [];
    const picture = thumb(i, width);
    if (picture) parts.push(picture);
    parts.push(text("strong", data.titles[i]), text("div", words(i), "small muted"));
    if (data.values && columns) {
      const list = text("dl", "", "facts");
      data.columns.slice(0, columns).forEach((name, f) => {
        list.append(text("dt", name), text("dd", data.values[i][f] === null ? "missing" : told(data.values[i][f])));
      });
      parts.push(list);
    }
    return parts;
  }

  function showTip(i) {
    pointed = i;
    tip.hidden = i === null;
    if (i !== null) {
      tip.replaceChildren(...describe(i, "64px", 0));
      const [x, y] = place(data.places[i]);
      const stage = canvas.parentElement.getBoundingClientRect();
      const frame = canvas.getBoundingClientRect();
      const left = frame.left - stage.left + x + 14, top = frame.top - stage.top + y + 14;
      tip.style.left = `${Math.max(0, Math.min(left, stage.width - tip.offsetWidth - 6))}px`;
      tip.style.top = `${top + tip.offsetHeight > stage.height ? top - tip.offsetHeight - 28 : top}px`;
    }
    draw();
  }

  function choose(cluster, i) {
    chosen = cluster;
    legend.forEach((button) => button.setAttribute("aria-pressed", String(+button.dataset.cluster === cluster)));
    document.querySelectorAll(".cluster").forEach((card) =>
      card.classList.toggle("chosen", card.id === `cluster-${cluster}`));
    if (cluster === null) {
      panel.replaceChildren(...overview);
      live.textContent = "All clusters shown.";
    } else {
      const title = text("h3", heading(data.names[cluster]));
      const link = text("a", "Go to its card");
      link.href = `#cluster-${cluster}`;
      const parts = [title, text("p", data.summaries[cluster], "summary"), link];
      if (i !== null && i !== undefined) {
        const rule = document.createElement("hr");
        parts.push(rule, ...describe(i, "120px", 30));
      }
      panel.replaceChildren(...parts);
      live.textContent = `${heading(data.names[cluster])}: ${data.summaries[cluster]}`;
    }
    draw();
  }

  function step(key) {  // arrow keys go to the nearest row in that direction
    const start = pointed ?? 0;
    const [x, y] = place(data.places[start]);
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    let best = null, least = Infinity;
    for (let i = 0; i < n; i++) {
      const [a, b] = place(data.places[i]);
      const along = (a - x) * dx + (b - y) * dy, aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (i === start || along <= 0.5) continue;
      const cost = along + 2 * aside;
      if (cost < least) { least = cost; best = i; }
    }
    showTip(pointed === null ? 0 : best ?? start);
    live.textContent = words(pointed);
  }

  const at = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  canvas.addEventListener("pointermove", (event) => {
    const i = nearest(...at(event), 14);
    canvas.style.cursor = i === null ? "default" : "pointer";
    if (i !== pointed) showTip(i);
  });
  canvas.addEventListener("pointerleave", () => showTip(null));
  canvas.addEventListener("click", (event) => {
    const i = nearest(...at(event), 18);
    choose(i === null ? null : data.cluster[i], i);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) step(event.key);
    else if (event.key === "Enter" || event.key === " ") {
      if (pointed !== null) choose(data.cluster[pointed], pointed);
    } else if (event.key === "Escape") { showTip(null); choose(null); }
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("blur", () => showTip(null));
  legend.forEach((button) => button.addEventListener("click", () => {
    const cluster = +button.dataset.cluster;
    choose(chosen === cluster ? null : cluster);
  }));
  document.querySelectorAll("[data-show]").forEach((button) => button.addEventListener("click", () => {
    choose(+button.dataset.show);
    document.getElementById("map").scrollIntoView();
    canvas.focus({ preventScroll: true });
  }));
  colorBy.addEventListener("change", paint);
  new ResizeObserver(draw).observe(canvas);
  redraw.push(paint);
  root.dataset.ready = "true";
})();
