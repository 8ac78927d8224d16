const levels = data.levels.map(function (level) {
  const children = new Map();
  level.parents.forEach(function (parent, index) { children.set(parent + "," + level.tokens[index], index); });
  return { best: level.best, values: kit.unpack(level.values), children: children };
});

// lecturelib.evaluation.beam_search for one row, keeping a record of every step.
function search(size, penalty) {
  const steps = [];
  let beams = [{ node: 0, total: 0, ids: [] }];
  let finished = [];
  for (let length = 1; length <= data.length; length++) {
    const level = levels[length - 1];
    const divisor = Math.pow(length, penalty);
    let candidates = beams.flatMap(function (beam, slot) {
      return level.best[beam.node].slice(0, 2 * size).map(function (token, place) {
        return { slot: slot, node: beam.node, token: token, ids: beam.ids.concat(token),
          step: level.values.at(beam.node, place), total: beam.total + level.values.at(beam.node, place) };
      });
    });
    candidates.sort(function (a, b) { return b.total - a.total; });
    candidates = candidates.slice(0, 2 * size);
    const kept = [];
    candidates.forEach(function (candidate, place) {
      const ends = candidate.token === data.eos || length === data.length;
      candidate.fate = "dropped";
      if (ends && place < size) {
        candidate.fate = "finished";
        candidate.score = candidate.total / divisor;
        finished.push(candidate);
      } else if (!ends && kept.length < size) {
        candidate.fate = "kept";
        kept.push(candidate);
      }
    });
    finished.sort(function (a, b) { return b.score - a.score; });
    finished = finished.slice(0, size);
    steps.push({ candidates: candidates, kept: kept, finished: finished.slice() });
    const worst = finished.length === size ? finished[size - 1].score : -Infinity;
    if (!kept.length || !(kept[0].total / divisor > worst)) break;
    beams = kept.map(function (candidate) {
      return { node: levels[length].children.get(candidate.node + "," + candidate.token),
        total: candidate.total, ids: candidate.ids };
    });
  }
  return steps;
}

function words(ids) {
  return ids.map(function (id) { return id === data.eos ? "■" : data.symbols[id]; }).join(" ");
}

let steps = null; // of the search that is shown
const sizes = Array.from({ length: data.largest }, function (_, index) { return String(index + 1); });
const size = kit.choices("Beam size", sizes, Math.min(2, data.largest - 1), restart);
const penalty = kit.choices("Length penalty", data.penalties.map(String), 0, restart);
const stepper = kit.player("Step", { min: 1, max: data.length, value: data.length, show: function (step) {
  return step + " of " + (steps ? steps.length : step);
} }, draw);
const input = stepper.input;

const tree = kit.element("div", { class: "tree", tabindex: 0, role: "region", "aria-label": "Tree of beginnings" });
function table(name, heads) {
  const caption = kit.element("caption", {}, name);
  const body = kit.element("tbody", {});
  const node = kit.element("table", { class: "list" }, caption, kit.element("thead", {}, kit.element("tr", {},
    ...heads.map(function (head) { return kit.element("th", { scope: "col" }, head); }))), body);
  return { node: node, set: function (title, rows) {
    caption.textContent = title;
    body.replaceChildren(...rows.map(function (row) {
      return kit.element("tr", { class: row.mark }, kit.element("th", { scope: "row" }, row.cells[0]),
        ...row.cells.slice(1).map(function (cell) { return kit.element("td", {}, cell); }));
    }));
  } };
}
const candidateTable = table("", ["continuation", "log p", "sum", "fate"]);
candidateTable.node.classList.add("candidates");
const finishedTable = table("", ["sequence", "score"]);
finishedTable.node.classList.add("finished");
kit.root.append(size.node, penalty.node, stepper.node, tree,
  kit.element("div", { class: "row" }, candidateTable.node, finishedTable.node));

function restart() {
  steps = search(size.value() + 1, data.penalties[penalty.value()]);
  input.max = steps.length;
  stepper.set(steps.length);
}

function begins(whole, part) {
  return part.every(function (id, index) { return whole[index] === id; });
}

function draw() {
  if (!steps) return;
  const now = stepper.value();
  const best = steps[now - 1].finished[0];
  const wide = 66, high = 30, left = 44;
  const rows = Math.max(...steps.slice(0, now).map(function (step) {
    return step.candidates.filter(function (c) { return c.fate !== "dropped"; }).length;
  }));
  const width = left + now * wide + 30, height = rows * high + 8;
  const picture = kit.svg("svg", { role: "img", width: width, height: height, viewBox: "0 0 " + width + " " + height,
    "aria-label": "After " + now + " steps " + steps[now - 1].kept.length + " beginnings are open and " +
      steps[now - 1].finished.length + " sequences are finished; the tables below list them." });
  picture.style.maxWidth = "none";
  const lines = kit.svg("g", {});
  const nodes = kit.svg("g", {});
  picture.append(lines, nodes);
  function put(x, y, label, kind, title) {
    const half = Math.max(14, 5 + 4.5 * label.length);
    nodes.append(kit.svg("g", { class: "node " + kind }, kit.svg("title", {}, title),
      kit.svg("rect", { x: x - half, y: y - 11, width: 2 * half, height: 22, rx: kind.includes("finished") ? 0 : 8 }),
      kit.svg("text", { x: x, y: y + 5, "text-anchor": "middle" }, label)));
  }
  let places = [{ x: 22, y: high / 2 + 4 }];
  put(places[0].x, places[0].y, "▶", "open path", "the start");
  steps.slice(0, now).forEach(function (step, column) {
    const x = left + column * wide + 34;
    const shown = step.kept.concat(step.candidates.filter(function (c) { return c.fate === "finished"; }));
    const next = shown.map(function (candidate, row) {
      const y = row * high + high / 2 + 4;
      const from = places[candidate.slot];
      const onPath = best && begins(best.ids, candidate.ids) ? " path" : "";
      lines.append(kit.svg("line", { class: "edge" + onPath, x1: from.x, y1: from.y, x2: x, y2: y }));
      put(x, y, candidate.token === data.eos ? "■" : data.symbols[candidate.token],
        (candidate.fate === "finished" ? "finished" : "open") + onPath,
        words(candidate.ids) + ": log-probability " + kit.number(candidate.total, 3));
      return { x: x, y: y };
    });
    places = next.slice(0, step.kept.length);
  });
  tree.replaceChildren(picture);
  candidateTable.set("The best continuations in step " + now, steps[now - 1].candidates.map(function (candidate) {
    return { mark: candidate.fate, cells: [words(candidate.ids), kit.number(candidate.step, 3),
      kit.number(candidate.total, 3), candidate.fate] };
  }));
  finishedTable.set("Finished so far, best first", steps[now - 1].finished.map(function (candidate, place) {
    return { mark: place === 0 ? "first" : "", cells: [words(candidate.ids), kit.number(candidate.score, 3)] };
  }));
  const last = now === steps.length ? "The search stops. " : "";
  kit.announce("Beam size " + (size.value() + 1) + " for " + data.title + ", step " + now + " of " + steps.length + ": " +
    steps[now - 1].kept.length + " open, " + steps[now - 1].finished.length + " finished. " + last +
    (best ? "Best so far: " + words(best.ids) + " with score " + kit.number(best.score, 3) + "." : ""));
}
restart();
