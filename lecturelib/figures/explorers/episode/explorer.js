const rows = data.grid.length, columns = data.grid[0].length;
let [example, step] = data.start;
let layer = data.layers - 1;
let walk, looks, weights, chances;

function now() { return data.examples[example]; }

const episodeChoice = kit.choices("Episode", data.examples.map(function (one) { return one.name; }), example,
  function (index) { example = index; step = 0; build(); });
const layerChoice = kit.choices("Layer", kit.counted(data.layers), layer, function (index) { layer = index; draw(); });
const stage = kit.element("div", { class: "stage" });
const room = Math.min(kit.root.clientWidth || 340, 340), side = Math.floor(room / columns);
const floor = kit.svg("svg", { class: "floor", role: "img", width: side * columns, height: side * rows,
  viewBox: "0 0 " + side * columns + " " + side * rows });
const trail = kit.svg("polyline", { class: "trail" }), agent = kit.svg("circle", { class: "agent", r: 0.28 * side });
data.grid.forEach(function (row, i) {
  Array.from(row).forEach(function (mark, j) {
    floor.append(kit.svg("rect", { class: mark === "#" ? "wall" : "free", x: j * side, y: i * side, width: side, height: side }));
    if (mark !== "#" && mark !== ".") {
      floor.append(kit.svg("text", { x: (j + 0.5) * side, y: (i + 0.5) * side + 5, "text-anchor": "middle" }, mark));
    }
  });
});
floor.append(trail, agent);
const odds = kit.bars("", ["action", "probability"], data.actions, 2);
const facts = kit.facts();
kit.root.append(episodeChoice.node);
if (data.layers > 1) kit.root.append(layerChoice.node);
kit.root.append(stage);

// Everything that depends on the episode: its slider, and a grid of its tokens.
function build() {
  const length = now().taken.length;
  weights = kit.unpack(now().weights);
  chances = kit.unpack(now().chances);
  walk = kit.player("Step", { min: 1, max: length, value: step + 1, pause: 700,
    show: function (place) { return place + " of " + length; } }, function (place) { step = place - 1; draw(); });
  const named = kit.counted(length).map(function (name, t) { return length > 12 && t % 5 ? "" : name; });
  looks = kit.matrix({ rows: data.kinds, columns: named, columnsName: "step", room: 640, tall: 14,
    onChoose: function (kind, step) { walk.set(step + 1); } });
  stage.replaceChildren(walk.node, kit.element("div", { class: "row" }, floor,
    kit.element("div", { class: "side" }, facts.node, odds.node)), looks.node);
  draw();
}

function draw() {
  const episode = now(), last = step === episode.taken.length - 1;
  const middle = function (cell) { return [(cell[1] + 0.5) * side, (cell[0] + 0.5) * side]; };
  trail.setAttribute("points", episode.cells.slice(0, step + 1).map(function (c) { return middle(c).join(","); }).join(" "));
  const [x, y] = middle(episode.cells[step]);
  agent.setAttribute("cx", x);
  agent.setAttribute("cy", y);
  const shares = data.actions.map(function (_, action) { return chances.at(step, action); });
  const taken = data.actions[episode.taken[step]];
  odds.set(shares, { caption: "The next action: it takes " + taken, top: 1 });
  let best = [0, 0];
  data.kinds.forEach(function (_, kind) {
    for (let t = 0; t <= step; t++) {
      if (weights.at(layer, step, kind, t) > weights.at(layer, step, best[0], best[1])) best = [kind, t];
    }
  });
  const most = weights.at(layer, step, best[0], best[1]);
  looks.paint(function (kind, t) { return weights.at(layer, step, kind, t); }, function (kind, t) {
    return data.kinds[kind] + " of step " + (t + 1) + ": " + kit.number(weights.at(layer, step, kind, t));
  }, most || 1);
  const where = "row " + (episode.cells[step][0] + 1) + ", column " + (episode.cells[step][1] + 1);
  facts.set([["still asked for", kit.number(episode.asked[step], 2)], ["at", where],
    ...(episode.notes[step] ? [["state", episode.notes[step]]] : []),
    ["earned in the end", kit.number(episode.earned, 2)]]);
  floor.setAttribute("aria-label", "The agent is at " + where + (episode.notes[step] ? ", " + episode.notes[step] : "") + ".");
  const words = "Step " + (step + 1) + ", at " + where + ": asked for " + kit.number(episode.asked[step], 2) + ", it takes "
    + taken + " (" + kit.number(shares[episode.taken[step]], 2) + "). Layer " + (layer + 1) + " looks most at the "
    + data.kinds[best[0]] + " of step " + (best[1] + 1) + " (" + kit.number(most, 2) + ").";
  looks.describe(words);
  kit.announce(words + (last ? " The episode ends with a return of " + kit.number(episode.earned, 2) + "." : ""));
}
build();
