let [graph, node] = data.start;
let head = 0;
let now, weights, places, marks, lines, ring, picture, chooser, x, y;
const COLOURS = ["#2f7ed8", "#d2691e", "#2b9258", "#a05bd0", "#d64550", "#848484", "#1f9aa3"];

const graphChoice = kit.choices("Graph", data.graphs.map(function (one) { return one.name; }), graph,
  function (index) { graph = index; node = 0; head = 0; build(); });
const stage = kit.element("div", { class: "stage" });
if (data.graphs.length > 1) kit.root.append(graphChoice.node);
kit.root.append(stage);

function called(index) { return now.nodes[index] + " (" + now.groups[index] + ")"; }

// The shortest beginning that tells the groups apart: colour is never alone.
function signs(groups) {
  const kinds = Array.from(new Set(groups));
  return Object.fromEntries(kinds.map(function (kind, index) {
    const letter = kind.slice(0, 1);
    const twin = kinds.some(function (other) { return other !== kind && other.slice(0, 1) === letter; });
    return [kind, { text: twin ? kind.slice(0, 2) : letter, colour: COLOURS[index % COLOURS.length] }];
  }));
}

// Everything that depends on the graph: lines under nodes, the slider, the heads, the key.
function build(room) {
  now = data.graphs[graph];
  weights = kit.unpack(now.weights);
  places = kit.unpack(now.places);
  const sign = signs(now.groups);
  const width = Math.max(280, Math.min(620, room || kit.root.clientWidth || 620)), height = Math.round(0.68 * width), edge = 22;
  x = function (i) { return edge + (width - 2 * edge) * places.at(i, 0); };
  y = function (i) { return edge + (height - 2 * edge) * places.at(i, 1); };
  picture = kit.svg("svg", { class: "graph", role: "img", width: width, height: height,
    viewBox: "0 0 " + width + " " + height });
  const seen = new Set();
  now.edges[0].forEach(function (source, e) {
    const target = now.edges[1][e], key = Math.min(source, target) + " " + Math.max(source, target);
    if (source === target || seen.has(key)) return;
    seen.add(key);
    picture.append(kit.svg("line", { class: "edge", x1: x(source), y1: y(source), x2: x(target), y2: y(target) }));
  });
  lines = kit.svg("g", {});
  ring = kit.svg("circle", { class: "ring", r: 17 });
  picture.append(lines, ring);
  marks = now.nodes.map(function (name, index) {
    const kind = sign[now.groups[index]];
    const mark = kit.svg("g", { class: "node", onclick: function () { chooser.set(index); } },
      kit.svg("title", {}, called(index)),
      kit.svg("circle", { class: "paper", cx: x(index), cy: y(index), r: 13 }),
      kit.svg("circle", { class: "disc", cx: x(index), cy: y(index), r: 13, fill: kind.colour, stroke: kind.colour }),
      kit.svg("text", { x: x(index), y: y(index) + 4, "text-anchor": "middle" }, kind.text));
    picture.append(mark);
    return mark;
  });
  chooser = kit.slider("Node", { min: 0, max: now.nodes.length - 1, value: node, show: called },
    function (value) { node = value; draw(); });
  const heads = kit.choices("Head", now.heads, head, function (index) { head = index; draw(); });
  const key = kit.element("p", { class: "note" }, Object.entries(sign).map(function ([kind, one]) {
    return one.text + " " + kind;
  }).join(" · "));
  stage.replaceChildren(chooser.node, ...(now.heads.length > 1 ? [heads.node] : []),
    kit.element("div", { class: "row" }, picture, kit.element("div", { class: "table" })), key);
  draw();
  const given = picture.getBoundingClientRect().width; // beside its table the graph may be narrower: letters keep their size
  if (!room && given >= 280 && given < 0.95 * width) build(Math.floor(given));
}

function draw() {
  const heard = [];
  now.edges[1].forEach(function (target, e) {
    if (target === node) heard.push({ source: now.edges[0][e], weight: weights.at(head, e) });
  });
  heard.sort(function (a, b) { return b.weight - a.weight; });
  lines.replaceChildren(...heard.filter(function (one) { return one.source !== node; }).map(function (one) {
    return kit.svg("line", { class: "heard", x1: x(one.source), y1: y(one.source), x2: x(node), y2: y(node),
      "stroke-width": (1 + 13 * one.weight).toFixed(2) });
  }));
  const itself = heard.find(function (one) { return one.source === node; });
  ring.setAttribute("cx", x(node));
  ring.setAttribute("cy", y(node));
  ring.setAttribute("stroke-width", itself ? (1 + 13 * itself.weight).toFixed(2) : 0);
  marks.forEach(function (mark, index) {
    const near = index === node || heard.some(function (one) { return one.source === index; });
    mark.setAttribute("class", "node" + (index === node ? " chosen" : near ? "" : " far"));
  });
  const names = heard.slice(0, 10).map(function (one) { return one.source === node ? "itself" : called(one.source); });
  const table = kit.bars(called(node) + " hears", ["node", "weight"], names, 3);
  table.set(heard.slice(0, 10).map(function (one) { return one.weight; }), { top: Math.max(1e-9, heard.length ? heard[0].weight : 1) });
  stage.querySelector(".table").replaceChildren(...(heard.length ? [table.node] : []),
    ...(heard.length > 10 ? [kit.element("p", { class: "note" }, "and " + (heard.length - 10) + " more")] : []));
  const total = heard.reduce(function (sum, one) { return sum + one.weight; }, 0);
  const own = heard.reduce(function (sum, one) { return sum + (now.groups[one.source] === now.groups[node] ? one.weight : 0); }, 0);
  const words = heard.length ? now.heads[head] + ": " + called(node) + " hears "
    + (heard[0].source === node ? "itself" : called(heard[0].source)) + " most, with " + kit.number(heard[0].weight)
    + ". Nodes of its own group have " + Math.round(100 * own / Math.max(total, 1e-9)) + " % of its weight."
    : called(node) + " hears nobody.";
  picture.setAttribute("aria-label", "Graph of " + now.nodes.length + " nodes. " + words);
  kit.announce(words);
}
build();
