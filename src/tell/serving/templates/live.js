"use strict";
(() => {
  const MOST = 2048;  // points that are kept, whatever comes
  const SEEN = 0, LOSS = 1, RUNNING = 2, USUAL = 3, LIMIT = 4, FAR = 5, MOVEMENT = 6;
  const root = document.documentElement;
  const at = (id) => document.getElementById(id);
  const data = { points: [], sizes: [], events: [], rows: [], names: [], colors: [], seen: 0, drift: false, learned: false, kind: "" };
  let chosen = null, lossAt = null, sizesAt = null;

  const dark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => { at("theme").textContent = dark() ? "Light" : "Dark"; };
  at("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; nameTheme(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  nameTheme();

  function text(tag, content, className) {
    const element = document.createElement(tag);
    element.textContent = content;  // never markup: names come from data
    if (className) element.className = className;
    return element;
  }
  function shape(tag, attributes, className) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.setAttribute("class", className);
    return element;
  }
  const whole = (value) => Math.round(value).toLocaleString("en");
  const short = (value) => typeof value !== "number" ? "–"
    : value.toLocaleString("en", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
  const percent = (share) => typeof share !== "number" ? "–" : `${share > 0 && share < 0.005 ? "< 1" : Math.round(100 * share)} %`;
  const title = (j) => data.names[j] ? `${j} ${data.names[j]}` : `cluster ${j}`;
  const clock = (seconds) => new Date(1000 * seconds).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

  // --- what is told in numbers and words -------------------------------------------------------
  function tell() {
    const last = data.points[data.points.length - 1];
    at("seen").textContent = whole(data.seen);
    at("running").textContent = last ? short(last[RUNNING]) : "–";
    at("usual").textContent = last ? short(last[USUAL]) : "–";
    at("far").textContent = last ? percent(last[FAR]) : "–";
    at("movement").textContent = last ? short(last[MOVEMENT]) : "–";
    const verdict = at("verdict");
    const words = !last ? (data.learned ? `Batches are learned; a ${data.kind} keeps no running loss.` : "No batch has been learned since the fit.")
      : data.drift ? `The data drifts: the loss of recent rows is ${short(last[RUNNING])}, usual is ${short(last[USUAL])}.`
        : "Recent rows look like those the model learned from.";
    if (verdict.textContent !== words) verdict.textContent = words;
    verdict.classList.toggle("no", data.drift);
  }

  const heading = (words) => words.charAt(0).toUpperCase() + words.slice(1);
  function list(holder, items, none) {
    holder.replaceChildren(...(items.length ? items : [text("li", none, "empty")]));
  }
  function tellEvents() {
    list(at("event-list"), [...data.events].reverse().map((event) => {
      const item = document.createElement("li");
      const when = text("time", `${clock(event.at)}, after ${whole(event.seen)} rows`);
      when.dateTime = new Date(1000 * event.at).toISOString();
      item.append(text("span", heading(event.kind), "kind"), when, text("span", `${heading(event.text)}.`));
      return item;
    }), "Nothing so far.");
  }
  function ink(color) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16) / 255)
      .map((p) => p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  }
  function tellRows() {
    list(at("row-list"), [...data.rows].reverse().map((row) => {
      const item = document.createElement("li");
      const badge = text("span", String(row.cluster), "badge");
      const color = data.colors[row.cluster] ?? "#717581";
      badge.style.setProperty("--c", color);
      badge.style.setProperty("--on", ink(color));
      badge.title = title(row.cluster);
      item.append(badge, text("span", `Row ${whole(row.row)} ${row.rejected ? "would be rejected" : "is borderline"}`, "what"),
        text("span", `In ${title(row.cluster)}: ${row.reason}.`, "why"));
      return item;
    }), "None so far.");
  }

  // --- charts -----------------------------------------------------------------------------------
  const across = (rows, first, last) => last > first ? 1000 * (rows - first) / (last - first) : 500;

  function drawLoss() {
    const chart = at("loss-chart"), points = data.points;
    if (!points.length) { chart.replaceChildren(); return; }
    const first = points[0][SEEN], last = points[points.length - 1][SEEN];
    const values = points.flatMap((p) => [p[LOSS], p[RUNNING], p[LIMIT]]).filter((v) => typeof v === "number");
    const most = Math.max(...values) * 1.05 || 1;
    // A loss that grows manyfold would press everything else to the ground.
    const low = 0.8 * Math.min(...values.filter((v) => v > 0), points[points.length - 1][USUAL] || most);
    const logarithmic = most > 15 * (points[points.length - 1][USUAL] || most);
    const up = logarithmic ? (value) => 300 - 300 * Math.log(Math.max(value, low) / low) / Math.log(most / low)
      : (value) => 300 - 300 * value / most;
    const line = (key, kept = points) => kept.filter((p) => typeof p[key] === "number")
      .map((p) => `${across(p[SEEN], first, last).toFixed(1)},${up(p[key]).toFixed(1)}`);
    const watched = points.filter((p) => p[LIMIT] > 0);
    const parts = [
      shape("polygon", { points: [...line(LIMIT, watched), `${across(last, first, last)},300`, `${across(watched[0]?.[SEEN] ?? last, first, last)},300`].join(" ") }, "band"),
      shape("polyline", { points: line(LOSS).join(" ") }, "batch"),
      shape("polyline", { points: line(USUAL).join(" ") }, "usual"),
      shape("polyline", { points: line(RUNNING).join(" ") }, "running"),
    ];
    for (const event of data.events) {
      if (event.kind !== "drift" || event.seen < first || event.seen > last) continue;
      const x = across(event.seen, first, last);
      parts.push(shape("line", { x1: x, x2: x, y1: 0, y2: 300 }, "event"));
    }
    const told = lossAt === null ? null : points[Math.min(lossAt, points.length - 1)];
    if (told) {
      const x = across(told[SEEN], first, last);
      parts.push(shape("line", { x1: x, x2: x, y1: 0, y2: 300 }, "cursor"));
      at("loss-told").textContent = `After ${whole(told[SEEN])} rows: batch ${short(told[LOSS])}, running ${short(told[RUNNING])}, usual ${short(told[USUAL])}, far rows ${percent(told[FAR])}, centres moved by ${short(told[MOVEMENT])}.`;
    } else at("loss-told").textContent = "";
    chart.replaceChildren(...parts);
    const now = points[points.length - 1];
    chart.setAttribute("aria-label", `Running loss ${short(now[RUNNING])}, usual ${short(now[USUAL])}, highest value shown ${short(most)}`);
    at("loss-from").textContent = `${whole(first)} rows; bottom ${logarithmic ? `${short(low)}, logarithmic` : 0}`;
    at("loss-to").textContent = `${whole(last)} rows; top ${short(most)}`;
  }

  function drawSizes() {
    const chart = at("sizes-chart"), saves = data.sizes;
    if (!saves.length) { chart.replaceChildren(); return; }
    const drawn = saves.length > 1 ? saves : [{ ...saves[0], seen: saves[0].seen - 1 }, saves[0]];
    const first = drawn[0].seen, last = drawn[drawn.length - 1].seen, k = data.names.length;
    const tops = drawn.map((save) => {
      const total = save.sizes.reduce((sum, size) => sum + size, 0) || 1;
      let sum = 0;
      return data.names.map((_, j) => (sum += (save.sizes[j] ?? 0) / total));  // some were born later
    });
    const parts = [];
    for (let j = 0; j < k; j++) {
      const edge = (below) => drawn.map((save, i) =>
        `${across(save.seen, first, last).toFixed(1)},${(300 - 300 * (below ? (j ? tops[i][j - 1] : 0) : tops[i][j])).toFixed(1)}`);
      const area = shape("polygon", { points: [...edge(false), ...edge(true).reverse()].join(" ") }, `area${chosen !== null && chosen !== j ? " dim" : ""}`);
      area.style.setProperty("--c", data.colors[j]);
      parts.push(area);
    }
    const told = sizesAt === null ? null : drawn[Math.min(sizesAt, drawn.length - 1)];
    const shares = (save) => {
      const total = save.sizes.reduce((sum, size) => sum + size, 0) || 1;
      const order = save.sizes.map((size, j) => [size / total, j]).sort((a, b) => b[0] - a[0]);
      return (chosen === null ? order.slice(0, 4) : order.filter(([, j]) => j === chosen))
        .map(([share, j]) => `${title(j)} ${percent(share)}`).join(", ");
    };
    if (told) {
      const x = across(told.seen, first, last);
      parts.push(shape("line", { x1: x, x2: x, y1: 0, y2: 300 }, "cursor"));
    }
    const shown = told ?? (chosen === null ? null : drawn[drawn.length - 1]);
    at("sizes-told").textContent = shown ? `After ${whole(shown.seen)} rows: ${shares(shown)}.` : "";
    chart.replaceChildren(...parts);
    chart.setAttribute("aria-label", `Largest now: ${shares(drawn[drawn.length - 1])}`);
    at("sizes-from").textContent = `${whole(first)} rows`;
    at("sizes-to").textContent = `${whole(last)} rows`;
  }

  function drawLegend() {
    const holder = at("legend"), marks = data.names.map((name, j) => `${j}/${name}`).join("|");
    if (holder.dataset.marks === marks) return;
    holder.dataset.marks = marks;
    holder.replaceChildren(...data.names.map((name, j) => {
      const button = text("button", "");
      button.type = "button";
      button.style.setProperty("--c", data.colors[j]);
      button.setAttribute("aria-pressed", "false");
      button.append(text("span", "", "dot"), name ? `${j} ${name}` : String(j));
      button.addEventListener("click", () => {
        chosen = chosen === j ? null : j;
        [...holder.children].forEach((other, i) => other.setAttribute("aria-pressed", String(i === chosen)));
        drawSizes();
      });
      return button;
    }));
  }

  function readable(id, count, place, set) {  // pointer and arrow keys read single values
    const chart = at(id);
    chart.addEventListener("pointermove", (event) => {
      const frame = chart.getBoundingClientRect();
      set(place((event.clientX - frame.left) / frame.width));
    });
    chart.addEventListener("pointerleave", () => set(null));
    chart.addEventListener("blur", () => set(null));
    let here = null;
    chart.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -MOST, End: MOST }[event.key];
      if (event.key === "Escape") here = null;
      else if (steps && count()) here = Math.max(0, Math.min(count() - 1, (here ?? (steps < 0 ? count() : -1)) + steps));
      else return;
      set(here);
      event.preventDefault();
    });
  }
  function nearest(places, share) {
    if (!places.length) return null;
    const goal = places[0] + share * (places[places.length - 1] - places[0]);
    return places.reduce((best, value, i) => Math.abs(value - goal) < Math.abs(places[best] - goal) ? i : best, 0);
  }
  readable("loss-chart", () => data.points.length, (share) => nearest(data.points.map((p) => p[SEEN]), share),
    (i) => { lossAt = i; drawLoss(); });
  readable("sizes-chart", () => data.sizes.length, (share) => nearest(data.sizes.map((p) => p.seen), share),
    (i) => { sizesAt = i; drawSizes(); });

  // --- what comes -------------------------------------------------------------------------------
  let asked = false;
  function redraw() {  // once per frame, however much comes
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      tell(); tellEvents(); drawLegend(); tellRows(); drawLoss(); drawSizes();
      root.dataset.points = String(data.points.length);
      root.dataset.ready = "true";
    });
  }
  function take(state, fresh) {
    const points = fresh ? state.points : data.points.concat(state.points);
    const sizes = fresh ? state.sizes : data.sizes.concat(state.sizes);
    Object.assign(data, state, { points: points.slice(-MOST), sizes: sizes.slice(-MOST) });
    redraw();
  }
  function say(state, words) {
    at("state").dataset.state = state;
    at("state").textContent = words;
  }
  let source = null;
  function connect() {
    source = new EventSource("events");
    source.addEventListener("open", () => say("live", "Live"));
    source.addEventListener("state", (event) => take(JSON.parse(event.data), true));
    source.addEventListener("more", (event) => take(JSON.parse(event.data), false));
    source.addEventListener("error", () => {
      say("lost", "Connection lost; trying again");
      if (source.readyState !== EventSource.CLOSED) return;
      source.close();  // refused outright: the browser would not try again by itself
      setTimeout(connect, 1000);
    });
  }
  connect();
})();
