// The report: shows the document that came with it.

const report = JSON.parse(byId('document').textContent);

showBanner(report);
showFacts(report);
showCalls(report);
showRecompiles(report);
showMarks(report);
showWays(report);
showErrors(report);
showFaults(report);
showSweep(report);
showWaits(report);
showDims(report);
showEntries(report);
document.documentElement.dataset.painted = String(Math.round(performance.now()));
