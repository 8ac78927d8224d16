// How search orders what it finds: first the section that introduces a word, then the glossary's sentence about it,
// then headings, then text; names of the package come after the chapters that explain them.
var Scorer = {
  score: (result) => {
    const [page, title, anchor, description, score] = result;
    const index = Search._index;
    const file = index.docnames.indexOf(page);
    if (anchor && description === null && title === index.titles[file]) {
      const section = Object.entries(index.alltitles).find(([, places]) =>
        places.some(([where, id]) => where === file && `#${id}` === anchor),
      );
      if (section) result[1] = `${title} > ${section[0]}`;
    }
    return page === "glossary" ? score - 5 : page.startsWith("reference/") ? score - 10 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
