// Figures and their columns, as the report made them: {value, text}, of a rate its parts too. None is computed here.

// A column of figures; `cellsOf` finds the cells of a row by the names of their figures.
function figureColumn({ figure, label, title, bestFirst }, cellsOf) {
  return {
    name: figure,
    label,
    title: title || null,
    class: "number",
    bestFirst,
    value: (row) => cellsOf(row)?.[figure]?.value ?? null,
    cell: (row) => cellsOf(row)?.[figure]?.text ?? ABSENT,
  };
}

function modelColumn(title = (row) => row.title) {
  return { name: "model", label: "Model", class: "name", value: title };
}

// The cells of the suite that is chosen, or of the whole model; none where it was not asked that suite.
function shownCells(figures) {
  if (view.suite === "") return figures.cells;
  return figures.suites.find((suite) => isSuiteShown(suite.suite))?.cells ?? null;
}

// What stands where no figure is known.
const NO_FIGURE = { value: null, text: ABSENT };

// Figures are of whole models and suites. Of calls that were picked by outcome or by words, only how many they are.
function isPicked() {
  return view.outcome !== "" || view.words !== "";
}

// `k of n` where there is a whole that is known.
function countOfPicked(picked, whole) {
  return { value: picked, text: whole?.value ? `${count(picked)} of ${count(whole.value)}` : count(picked) };
}

// `1 call`, `3 calls`; of picked ones `1 of 3 calls`.
function countInWords(cell, noun) {
  return `${cell.text} ${cell.text === "1" ? noun : `${noun}s`}`;
}
