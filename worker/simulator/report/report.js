// The report: shows the document that came with it.

const report = JSON.parse(byId('document').textContent);

showBanner(report);
showFacts(report);
showCalls(report);
showRecompiles(report);
showMarks(report);
showErrors(report);
showDims(report);
showEntries(report);
for (const id of ['compare', 'sweep']) if (byId(id).querySelector('div').children.length === 0) byId(id).classList.add('empty');
document.documentElement.dataset.painted = String(Math.round(performance.now()));
