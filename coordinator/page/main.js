// The page: shows the status document that it contains, then each update.

const data = byId('document');
const live = data.dataset.live === 'true';
let status = JSON.parse(data.textContent);
let lastWord = Date.now(), connected = live;
const map = new HeatMap(byId('map'), byId('readout'));

const jobNow = () => status.jobs.find((job) => job.job === byId('job').value) || status.jobs[0];

function showJobs() {
  const names = status.jobs.map((job) => job.job), choice = byId('job'), before = choice.value;
  show(choice, names, () => names.map((name) => element('option', {value: name}, name)));
  if (names.includes(before)) choice.value = before;
  byId('job-choice').hidden = names.length < 2;
}

function showConnection() {
  const place = byId('connection'), ago = Math.round((Date.now() - lastWord) / 1000);
  const gone = live && (!connected || ago > 5);
  place.className = gone ? 'gone' : '';
  const text = !live ? `a file${status.made ? `, made ${status.made}` : ''}: nothing here changes`
    : gone ? `no word from the coordinator since ${new Date(lastWord).toLocaleTimeString()}` : `live, ${status.coordinator.listening}`;
  if (place.textContent !== text) place.textContent = text;
}

function showAll() {
  showJobs();
  showConnection();
  const job = jobNow();
  for (const section of document.querySelectorAll('main > section')) section.classList.toggle('empty', !job && section.id !== 'banner');
  if (!job) {
    byId('verdict').textContent = 'No job has come yet';
    byId('sentence').textContent = 'Start one with LOCKSTEP_COORDINATOR set to this coordinator\'s address.';
    return;
  }
  const ranks = rankTable(job);
  byId('go-to-rank').max = job.size - 1;
  byId('map').setAttribute('aria-label', `Map of ${job.size} ranks on ${job.hosts.length} hosts`);
  showBanner(job);
  showFacts(job);
  showFindings(job);
  showLegend(ranks);
  map.show(job, ranks);
  showText(job, ranks);
  showWaits(job);
  showCalls(job);
  showRecompiles(job);
  showGraphs(job);
  showArrival(job);
  showConfiguration(status, job);
}

/** The texts of the job's graphs. Updates lack them, so a live page fetches the document. */
async function textsOf(job) {
  const source = job.graphs.some((graph) => graph.text) || !live ? job
    : (await (await fetch('status.json')).json()).jobs.find((other) => other.job === job.job);
  return new Map((source ? source.graphs : []).map((graph) => [graph.graph, graph.text]));
}

async function compare(event) {
  event.preventDefault();
  const place = byId('difference');
  try {
    const texts = await textsOf(jobNow()), left = texts.get(byId('left').value), right = texts.get(byId('right').value);
    place.replaceChildren(left && right
      ? (left === right ? none('One graph on both sides:') : differenceElement(left, right))
      : none('The text of one of them is no longer known.'));
    if (left && left === right) place.append(element('pre', {class: 'lines scroll code', tabindex: '0'}, left));
  } catch (error) {
    place.replaceChildren(none('The coordinator did not answer.'));
  }
}

function follow() {
  const updates = new EventSource('updates');
  updates.onmessage = (event) => {
    status = JSON.parse(event.data);
    lastWord = Date.now();
    connected = true;
    showAll();
  };
  updates.onerror = () => {
    connected = false;
    showConnection();
    // After an answer such as "no room" a browser gives up, so the page tries again.
    if (updates.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
  };
}

byId('job').addEventListener('change', showAll);
byId('compare').addEventListener('submit', compare);
byId('as-text').addEventListener('toggle', showAll);
byId('go-to-rank').addEventListener('input', (event) => {
  if (event.target.value !== '') map.choose(Number(event.target.value));
});

showAll();
document.documentElement.dataset.painted = String(Math.round(performance.now()));
if (live) {
  follow();
  setInterval(showConnection, 1000);
}
