// Compares what one run of the suite has said with what is expected of it.
//
//     node judge.mjs RUN LOG RESULTS EXPECTED TALLY
//
// LOG is the suite's output, RESULTS the folder that it has filled, EXPECTED the file of expectations. Prints the run's
// line with what stands out below it, and writes `PASSED FAILED DIFFERENCES` to TALLY.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [run, log, results, expectedFile, tally] = process.argv.slice(2);

// What each scenario has come to: passes, warns (no check failed, one has warned) or fails.
function outcomes() {
  const text = readFileSync(log, "utf8");
  const summary = text.split("=== SUMMARY ===")[1] ?? "";
  const found = new Map();
  for (const [, mark, name] of summary.matchAll(/^([✓✗]) ([\w-]+): \d+ passed, \d+ failed/gm)) {
    const bad = checks(name).filter((check) => check.status === (mark === "✗" ? "FAILURE" : "WARNING"));
    const state = mark === "✗" ? "fails" : bad.length ? "warns" : "passes";
    const reason = bad.length
      ? `${bad[0].id}: ${bad[0].errorMessage ?? bad[0].description}`
      : (text.match(new RegExp(`^Failed to run scenario ${name}: (.*)$`, "m"))?.[1] ?? "");
    found.set(name, { state, reason: reason.replace(/\s+/g, " ").slice(0, 200) });
  }
  const unscored = new Set([...summary.matchAll(/^ +[✓✗] ([\w-]+) \(/gm)].map(([, name]) => name));
  return { found, unscored };
}

// None if the scenario itself broke off.
function checks(scenario) {
  const folder = readdirSync(results).find((name) => name.replace(/-\d{4}-\d\d-\d\dT.*$/, "") === `server-${scenario}`);
  const file = join(results, folder ?? "", "checks.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
}

// The expectations of this run, in the format that the file explains.
function expectations() {
  const known = new Map();
  let count, current, state, reason;
  for (const line of readFileSync(expectedFile, "utf8").split("\n")) {
    if (/^\s*(#|$)/.test(line)) continue;
    const head = line.match(/^(\S+): (\d+)$/);
    const group = line.match(/^ {4}(fails|warns): (.+)$/);
    if (head) {
      current = head[1];
      if (current === run) count = Number(head[2]);
    } else if (group) {
      [, state, reason] = group;
    } else if (current === run) {
      for (const name of line.trim().split(/\s+/)) known.set(name, { state, reason });
    }
  }
  return { known, count };
}

const { found, unscored } = outcomes();
const { known, count } = expectations();

const differences = [];
if (found.size !== count) differences.push(`${found.size} scenarios were run, expected ${count}`);
for (const [name, { state, reason }] of found) {
  const expected = known.get(name)?.state ?? "passes";
  if (state !== expected) differences.push(`${name} ${state}, expected: ${expected}${reason && `. ${reason}`}`);
}
for (const name of known.keys()) {
  if (!found.has(name)) differences.push(`${name} was not run`);
}

const passed = (names) => names.filter((name) => found.get(name).state !== "fails").length;
const ratio = (names) => `${passed(names)}/${names.length}`;
const all = [...found.keys()];
const scored = all.filter((name) => !unscored.has(name));
const detail = unscored.size ? ` (${ratio(scored)} scored, ${ratio(all.filter((name) => unscored.has(name)))} not)` : "";
console.log(`${run} ${ratio(all)}${detail}`);
for (const line of differences) console.log(`    UNEXPECTED ${line}`);
const groups = new Map();
for (const [name, { state, reason }] of known) {
  if (found.get(name)?.state !== state) continue;
  const title = `${state}, as expected: ${reason}`;
  groups.set(title, [...(groups.get(title) ?? []), name]);
}
for (const [title, names] of groups) console.log(`    ${title}\n        ${names.join(" ")}`);

writeFileSync(tally, `${passed(all)} ${all.length - passed(all)} ${differences.length}\n`);
