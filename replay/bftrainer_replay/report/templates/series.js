// Draws a picture's series again, to be read off (pointer, arrow keys) and zoomed (drag; + and -; Escape).
// Without script, and on paper, the picture says the same.
"use strict";
(() => {
  const LOOKS = [["--c1", ""], ["--c2", "6 3"], ["--c3", ""], ["--c4", "2 2"], ["--c5", "8 3 2 3"], ["--c6", "4 4"]];
  const STEPS_S = [60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  function add(parent, name, attributes = {}, text = "") {
    const svg = ["svg", "g", "path", "line", "rect", "text"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return parent.appendChild(made);
  }

  // Seconds east of UTC: [from when, seconds], more than one where clocks are changed in between.
  const east = (offsets, at_s) => (offsets.filter(([since]) => since <= at_s).pop() ?? offsets[0] ?? [0, 0])[1];

  function moment(at_s, step_s) {
    return new Date(1000 * at_s).toISOString().slice(0, step_s < 60 ? 19 : 16).replace("T", " ");
  }

  function when(at_s) {
    const iso = new Date(1000 * at_s).toISOString();
    return iso.slice(11, 16) === "00:00" ? MONTHS[iso.slice(5, 7) - 1] + " " + +iso.slice(8, 10) : iso.slice(11, 16);
  }

  // From 0 up, in steps of 1, 2 or 5 times a power of ten, at most five of them.
  function marks(most) {
    const rough = most / 5, ten = 10 ** Math.floor(Math.log10(rough));
    const step = ten * [1, 2, 5, 10].find(times => times * ten >= rough);
    return Array.from({length: Math.floor(most / step) + 1}, (_, i) => i * step);
  }

  function interactive(box) {
    const chart = JSON.parse(box.dataset.series), edges = chart.edges, names = Object.keys(chart.series);
    const last = edges.length - 1, hidden = new Set();
    const show = value => value.toLocaleString("en", {maximumFractionDigits: 1});
    const picture = box.querySelector("picture"), alt = picture.querySelector("img").alt;
    const live = add(box, "div", {class: "live"});
    const legend = add(live, "div", {class: "legend"});
    const svg = add(live, "svg", {tabindex: "0", role: "img", "aria-label": alt});
    const out = add(live, "output"), back = add(live, "button", {type: "button", class: "back"}, "Whole span");
    picture.classList.add("still");
    let from = 0, to = last, cursor = null, grip = null, left = 60, wide = 0, high = 0;

    names.forEach((name, i) => {
      const button = add(legend, "button", {type: "button", "aria-pressed": String(!hidden.has(name))});
      const key = add(button, "svg", {viewBox: "0 0 22 8", width: 22, height: 8, "aria-hidden": "true"});
      add(key, "path", {d: "M0 4H22", ...look(i), ...(i === 0 ? {"stroke-width": 8, opacity: .45} : {})});
      button.append(" " + name);
      button.addEventListener("click", () => {
        if (hidden.has(name)) hidden.delete(name); else hidden.add(name);
        button.setAttribute("aria-pressed", String(!hidden.has(name)));
        draw();
      });
    });

    function look(i) {
      const round = Math.floor(i / LOOKS.length), [color, dashes] = LOOKS[i % LOOKS.length];
      const dashed = round && !dashes ? "3 3" : "";
      return {fill: "none", stroke: `var(${color})`, "stroke-width": 1.6, "stroke-dasharray": dashed};
    }
    const x = at_s => left + wide * (at_s - edges[from]) / (edges[to] - edges[from]);
    const index = px => {
      const at_s = edges[from] + (px - left) / wide * (edges[to] - edges[from]);
      let i = from;
      while (i < to - 1 && edges[i + 1] <= at_s) i += 1;
      return i;
    };

    function draw() {
      const width = svg.getBoundingClientRect().width || 600, height = width < 500 ? 250 : 340;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      wide = width - left - 10;
      high = height - 40;
      const seen = names.filter(name => !hidden.has(name));
      const inside = seen.map(name => chart.series[name].slice(from, to));
      const top = 1.06 * Math.max(1, ...inside.map(values => Math.max(...values)));
      const least = Math.min(0, ...inside.map(values => Math.min(...values)));
      const y = value => 10 + high * (1 - (value - least) / (top - least));
      for (const mark of marks(top)) {
        add(svg, "line", {x1: left, x2: left + wide, y1: y(mark), y2: y(mark), class: "grid"});
        add(svg, "text", {x: left - 6, y: y(mark) + 4, "text-anchor": "end"}, mark.toLocaleString("en"));
      }
      const span = edges[to] - edges[from], step = STEPS_S.find(s => span / s <= wide / 75) || span;
      const zone = at => east(chart.offsets, at);
      for (const [begin, end] of chart.shaded) {
        const [a, b] = [Math.max(begin, edges[from]), Math.min(end, edges[to])];
        if (a < b) add(svg, "rect", {x: x(a), y: 10, width: x(b) - x(a), height: high, class: "shaded"});
      }
      // Ticks at whole steps of local time.
      for (let local = Math.ceil((edges[from] + zone(edges[from])) / step) * step; ; local += step) {
        const at = local - zone(local - zone(local));
        if (at > edges[to]) break;
        if (at < edges[from]) continue;
        add(svg, "line", {x1: x(at), x2: x(at), y1: 10, y2: 10 + high, class: "grid"});
        if (x(at) < left + wide - 12) add(svg, "text", {x: x(at), y: 26 + high, "text-anchor": "middle"}, when(at + zone(at)));
      }
      add(svg, "text", {x: 11, y: 10 + high / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${10 + high / 2})`}, "nodes");
      names.forEach((name, i) => {
        if (hidden.has(name)) return;
        let d = "";
        for (let k = from; k < to; k += 1) {
          const level = y(chart.series[name][k]).toFixed(1);
          d += (d ? "V" + level : `M${x(edges[k]).toFixed(1)} ${level}`) + "H" + x(edges[k + 1]).toFixed(1);
        }
        if (i === 0) {
          const [color] = LOOKS[0];
          add(svg, "path", {d: d + `V${y(0)}H${left}Z`, fill: `var(${color})`, opacity: .4, stroke: "none"});
        } else add(svg, "path", {d, ...look(i)});
      });
      point(cursor);
      back.hidden = from === 0 && to === last;
      live.dataset.shown = `${from} ${to}`;
    }

    function point(i) {
      cursor = i === null ? null : Math.min(Math.max(i, from), to - 1);
      svg.querySelector(".cursor")?.remove();
      if (cursor === null) {
        out.textContent = "Point to read off, drag to zoom; or arrow keys, + and -.";
        return;
      }
      const middle = x((edges[cursor] + edges[cursor + 1]) / 2);
      add(svg, "line", {x1: middle, x2: middle, y1: 10, y2: 10 + high, class: "cursor"});
      const values = names.filter(name => !hidden.has(name)).map(name => name + " " + show(chart.series[name][cursor]));
      out.textContent = moment(edges[cursor] + east(chart.offsets, edges[cursor]), edges[1] - edges[0]) + ": " + values.join(", ") + " nodes";
    }

    function zoom(first, end) {
      from = Math.max(0, Math.min(first, last - 2));
      to = Math.min(last, Math.max(end, from + 2));
      draw();
    }

    const place = event => event.clientX - svg.getBoundingClientRect().left;
    svg.addEventListener("pointerdown", event => {
      grip = place(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", event => {
      point(index(place(event)));
      svg.querySelector(".chosen")?.remove();
      if (grip !== null) {
        const [a, b] = [grip, place(event)].sort((p, q) => p - q);
        add(svg, "rect", {x: a, y: 10, width: b - a, height: high, class: "chosen"});
      }
    });
    svg.addEventListener("pointerup", event => {
      const [a, b] = [grip ?? place(event), place(event)].sort((p, q) => p - q);
      grip = null;
      svg.querySelector(".chosen")?.remove();
      if (b - a > 8) zoom(index(a), index(b) + 1);
    });
    svg.addEventListener("pointercancel", () => { grip = null; svg.querySelector(".chosen")?.remove(); });
    svg.addEventListener("pointerleave", () => point(null));
    svg.addEventListener("keydown", event => {
      const at = cursor ?? Math.floor((from + to) / 2), half = to - from;
      if (event.key === "ArrowLeft") point(at - 1);
      else if (event.key === "ArrowRight") point(at + 1);
      else if (event.key === "+") zoom(Math.floor(at - half / 4), Math.ceil(at + half / 4));
      else if (event.key === "-") zoom(at - half, at + half);
      else if (event.key === "Escape") zoom(0, last);
      else return;
      event.preventDefault();
    });
    back.addEventListener("click", () => zoom(0, last));
    new ResizeObserver(draw).observe(live);
    draw();
  }

  document.querySelectorAll("[data-series]").forEach(interactive);
})();
