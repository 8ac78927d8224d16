const maps = kit.unpack(data.maps); // [encoding][i][j]
const count = maps.shape[1];
const last = count - 1;
const vectors = {};
Object.keys(data.vectors).forEach(function (name) { vectors[name] = kit.unpack(data.vectors[name]); });
const encoding = kit.choices("Encoding", data.names, data.start, draw);
const place = kit.slider("Position t", { min: 0, max: last, value: Math.floor(count / 3), show: function (t) { return "t = " + t; } }, stay);
const shift = kit.slider("Shift k", { min: -last, max: last, value: data.shift, show: function (k) { return "k = " + signed(k); } }, stay);

function signed(k) { return k < 0 ? "−" + -k : String(k); }

// The map of all pairs; two lines run along the diagonal of all pairs that are k apart.
const places = Array.from({ length: count }, function (_, i) { return String(i); });
const map = kit.matrix({ rows: places, columns: places, rowsName: "position i", columnsName: "position j", every: 8,
  room: 400, onChoose: choose });
const edges = [-1, 1].map(function (side) { return { side: side, line: kit.svg("line", { class: "diagonal" }) }; });
const spot = kit.svg("circle", { class: "spot", r: 4.5 });
map.svg.append(...edges.map(function (edge) { return edge.line; }), spot);

// One row of the map as a curve: what position t makes of every other.
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
const facts = kit.facts();

kit.root.append(encoding.node, place.node, shift.node, kit.element("div", { class: "row" },
  kit.element("div", { class: "left" }, map.node, kit.element("p", { class: "note" }, "between the lines: all pairs with j = i + k")),
  kit.element("div", { class: "right" }, row, facts.node, panelName, panel)));

function choose(i, j) {
  choose.busy = true;
  place.set(i);
  shift.set(j - i);
  choose.busy = false;
  draw();
}

// Position t + k must be on the map: a shift that would leave it goes as far as it can.
function stay() {
  if (choose.busy) return;
  const t = place.value(), k = Math.max(-t, Math.min(last - t, shift.value()));
  if (k !== shift.value()) shift.set(k); else draw();
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
  map.paint(function (i, j) { return maps.at(e, i, j); }, function (i, j) {
    return "positions " + i + " and " + j + ": " + kit.number(maps.at(e, i, j), 3);
  }, top);
  edges.forEach(function (edge) { // from the top or left side of the map to its bottom or right side
    const at = k + edge.side;
    edge.line.setAttribute("x1", map.x(Math.max(at, 0)));
    edge.line.setAttribute("y1", map.y(Math.max(-at, 0)));
    edge.line.setAttribute("x2", map.x(Math.min(count, count + at)));
    edge.line.setAttribute("y2", map.y(Math.min(count, count - at)));
  });
  spot.setAttribute("cx", map.x(t + k + 0.5));
  spot.setAttribute("cy", map.y(t + 0.5));
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
    rows.push(["position t turned by k, against t + k", gap < 1e-5 ? "equal" : "differs by " + kit.number(gap, 5)]);
    panelName.textContent = "Hands at t (dashed) and t + k (solid); below each clock, the steps of one full turn";
  } else {
    panelName.textContent = "No clocks: nothing turns in this encoding.";
  }
  facts.set(rows);
  const said = name + ": positions " + t + " and " + (t + k) + " score " + kit.number(values[t + k], 3) + ". Pairs " + Math.abs(k) + " apart score " +
    (differ ? "from " + kit.number(smallest, 3) + " to " + kit.number(largest, 3) + ", depending on where they stand."
      : "the same wherever they stand.");
  map.describe("Scores of all pairs of " + count + " positions. " + said);
  row.setAttribute("aria-label", "Scores of position " + t + " with every position, from " + brief(Math.min(...values)) + " to " + brief(Math.max(...values)));
  kit.announce(said);
}
draw();
