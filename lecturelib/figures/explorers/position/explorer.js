const maps = kit.unpack(data.maps); // [encoding][i][j]
const count = maps.shape[1];
const reach = Math.floor(count / 3), last = count - 1 - reach; // so that t + k is always on the map
const vectors = {};
Object.keys(data.vectors).forEach(function (name) { vectors[name] = kit.unpack(data.vectors[name]); });
const CELL = 6, SIDE = count * CELL, BLUE = "#2f7ed8", ORANGE = "#d2691e";

const encoding = kit.choices("Encoding", data.names, data.start, draw);
const place = kit.slider("Position t", { min: reach, max: last, value: reach, show: function (t) { return "t = " + t; } }, draw);
const shift = kit.slider("Shift k", { min: -reach, max: reach, value: data.shift, show: function (k) { return "k = " + signed(k); } }, draw);

function signed(k) { return k < 0 ? "−" + -k : String(k); }

// The map: blue above zero, orange below, more ink for more; two lines run along the diagonal of all pairs that are k apart.
const squares = [];
const map = kit.svg("svg", { class: "map", role: "img", viewBox: "-1 -1 " + (SIDE + 2) + " " + (SIDE + 2), onclick: choose });
for (let i = 0; i < count; i++) {
  for (let j = 0; j < count; j++) {
    const square = kit.svg("rect", { x: j * CELL, y: i * CELL, width: CELL, height: CELL, "data-i": i, "data-j": j });
    squares.push(square);
    map.append(square);
  }
}
const edges = [-1, 1].map(function (side) { return { side: side, line: kit.svg("line", { class: "diagonal" }) }; });
const spot = kit.svg("circle", { class: "spot", r: 4.5 });
map.append(kit.svg("rect", { class: "frame", width: SIDE, height: SIDE }), ...edges.map(function (edge) { return edge.line; }), spot);

// One row of the map as a curve: what place t makes of every other place.
const WIDTH = 300, HEIGHT = 120, LEFT = 44, BOTTOM = 30;
const curve = kit.svg("polyline", { class: "curve" });
const zero = kit.svg("line", { class: "zero", x1: LEFT, x2: WIDTH - 4 });
const dot = kit.svg("circle", { class: "spot", r: 4.5 });
const high = kit.svg("text", { x: LEFT - 5, y: 14, "text-anchor": "end" });
const low = kit.svg("text", { x: LEFT - 5, y: HEIGHT - BOTTOM, "text-anchor": "end" });
const row = kit.svg("svg", { class: "profile", role: "img", viewBox: "0 0 " + WIDTH + " " + HEIGHT }, zero, curve, dot, high, low,
  kit.svg("text", { x: LEFT, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, "0"),
  kit.svg("text", { x: WIDTH - 6, y: HEIGHT - BOTTOM + 16, "text-anchor": "end" }, String(count - 1)),
  kit.svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "position j"));

// Clocks: each pair of features is a hand; k steps turn it by k times its speed, whatever t is.
const clocks = data.speeds.map(function (speed) {
  const before = kit.svg("line", { class: "before", x1: 0, y1: 0 });
  const after = kit.svg("line", { class: "after", x1: 0, y1: 0 });
  const face = kit.svg("svg", { class: "clock", viewBox: "-1.15 -1.15 2.3 2.3", role: "img" },
    kit.svg("circle", { class: "face", r: 1.08 }), before, after);
  const period = 2 * Math.PI / speed;
  const name = kit.element("figcaption", {}, period < 100 ? kit.number(period, 1) : kit.number(period, 0));
  return { before: before, after: after, face: face, speed: speed, node: kit.element("figure", {}, face, name) };
});
const panel = kit.element("div", { class: "clocks" }, ...clocks.map(function (clock) { return clock.node; }));
const panelName = kit.element("p", { class: "note" });
const facts = kit.element("dl", { class: "facts" });

kit.root.append(encoding.node, place.node, shift.node, kit.element("div", { class: "row" },
  kit.element("div", { class: "left" }, map, kit.element("p", { class: "note" }, "row: position i, column: position j; between the lines: all pairs with j = i + k")),
  kit.element("div", { class: "right" }, row, facts, panelName, panel)));

function choose(event) {
  const i = Number(event.target.dataset.i), j = Number(event.target.dataset.j);
  if (!(i >= reach && i <= last && Math.abs(j - i) <= reach)) return;
  place.set(i);
  shift.set(j - i);
}

// The hand of clock c at a place. Sinusoids start upright and run clockwise; rotary features turn the other way.
function hand(name, t, c) {
  const first = vectors[name].at(t, 2 * c), second = vectors[name].at(t, 2 * c + 1);
  const long = Math.hypot(first, second) || 1;
  return [first / long, -second / long];
}
function turned(name, t, k, c) {
  const first = vectors[name].at(t, 2 * c), second = vectors[name].at(t, 2 * c + 1);
  const angle = (name === "sinusoidal" ? -1 : 1) * k * data.speeds[c];
  return [first * Math.cos(angle) - second * Math.sin(angle), first * Math.sin(angle) + second * Math.cos(angle)];
}
function brief(value) {
  return Math.abs(value) < 0.005 ? "0.00" : kit.number(value, 2);
}

function draw() {
  const e = encoding.value(), t = place.value(), k = shift.value(), name = data.names[e];
  let top = 1e-9, largest = -Infinity, smallest = Infinity;
  for (let i = 0; i < count; i++) for (let j = 0; j < count; j++) top = Math.max(top, Math.abs(maps.at(e, i, j)));
  squares.forEach(function (square, index) {
    const value = maps.values[e * count * count + index];
    square.setAttribute("fill", value < 0 ? ORANGE : BLUE);
    square.setAttribute("fill-opacity", (0.95 * Math.abs(value) / top).toFixed(3));
  });
  edges.forEach(function (edge) { // from the top or left side of the map to its bottom or right side
    const at = k + edge.side;
    const ends = [["x1", Math.max(at, 0)], ["y1", Math.max(-at, 0)], ["x2", Math.min(count, count + at)], ["y2", Math.min(count, count - at)]];
    ends.forEach(function ([key, value]) { edge.line.setAttribute(key, value * CELL); });
  });
  spot.setAttribute("cx", (t + k + 0.5) * CELL);
  spot.setAttribute("cy", (t + 0.5) * CELL);
  for (let i = Math.max(0, -k); i < count && i + k < count; i++) {
    largest = Math.max(largest, maps.at(e, i, i + k));
    smallest = Math.min(smallest, maps.at(e, i, i + k));
  }
  const values = Array.from({ length: count }, function (_, j) { return maps.at(e, t, j); });
  const upper = Math.max(0, ...values), lower = Math.min(0, ...values);
  function x(j) { return LEFT + (WIDTH - LEFT - 6) * j / (count - 1); }
  function y(value) { return 8 + (HEIGHT - BOTTOM - 12) * (upper - value) / (upper - lower || 1); }
  curve.setAttribute("points", values.map(function (v, j) { return x(j).toFixed(1) + "," + y(v).toFixed(1); }).join(" "));
  zero.setAttribute("y1", y(0));
  zero.setAttribute("y2", y(0));
  dot.setAttribute("cx", x(t + k));
  dot.setAttribute("cy", y(values[t + k]));
  high.textContent = brief(upper);
  low.textContent = brief(lower);

  const turns = name in vectors;
  const differ = largest - smallest > 0.001 * top;
  const rows = [
    ["score of (t, t + k)", kit.number(values[t + k], 3)],
    ["smallest of all (i, i + k)", kit.number(smallest, 3)],
    ["largest of all (i, i + k)", kit.number(largest, 3)],
  ];
  panel.hidden = !turns;
  if (turns) {
    let gap = 0;
    clocks.forEach(function (clock, c) {
      const from = hand(name, t, c), to = hand(name, t + k, c), guess = turned(name, t, k, c);
      clock.before.setAttribute("x2", from[0]);
      clock.before.setAttribute("y2", from[1]);
      clock.after.setAttribute("x2", to[0]);
      clock.after.setAttribute("y2", to[1]);
      clock.face.setAttribute("aria-label", "clock " + (c + 1) + " turns by " + kit.number(k * clock.speed, 3) + " radians");
      [0, 1].forEach(function (side) { gap = Math.max(gap, Math.abs(guess[side] - vectors[name].at(t + k, 2 * c + side))); });
    });
    rows.push(["place t turned by k, against place t + k", gap < 1e-5 ? "equal" : "differs by " + kit.number(gap, 5)]);
    panelName.textContent = "Hands at t (dashed) and t + k (solid); below each clock, the steps of one full turn";
  } else {
    panelName.textContent = "No clocks: nothing turns in this encoding.";
  }
  facts.replaceChildren(...rows.flatMap(function ([term, value]) {
    return [kit.element("dt", {}, term), kit.element("dd", {}, value)];
  }));
  const said = name + ": positions " + t + " and " + (t + k) + " score " + kit.number(values[t + k], 3) + ". Pairs " + Math.abs(k) + " apart score " +
    (differ ? "from " + kit.number(smallest, 3) + " to " + kit.number(largest, 3) + ", depending on where they stand."
      : "the same wherever they stand.");
  map.setAttribute("aria-label", "Scores of all pairs of " + count + " positions. " + said);
  row.setAttribute("aria-label", "Scores of position " + t + " with every position, from " + brief(Math.min(...values)) + " to " + brief(Math.max(...values)));
  kit.announce(said);
}
draw();
