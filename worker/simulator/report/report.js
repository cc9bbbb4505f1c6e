// The report: shows the document in its page.

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
// Plots are drawn for the width of the screen, which changes when a phone is turned.
window.matchMedia('(max-width: 640px)').addEventListener('change', () => location.reload());
document.documentElement.dataset.painted = String(Math.round(performance.now()));
