// Axes and points.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const page = load([
  "timeScale",
  "linearScale",
  "tickLabel",
  "pointPath",
  "PointFinder",
  "seriesStyle",
  "labels",
  "crowd",
  "calls",
]);

for (const logarithmic of [true, false]) {
  test(`a ${logarithmic ? "logarithmic" : "linear"} axis keeps the order of times and its ticks inside`, () => {
    const scale = page.timeScale([12, 480, 90_000], 100, 900, logarithmic);
    const places = [12, 480, 90_000].map(scale.place);
    assert.ok(places[0] < places[1] && places[1] < places[2]);
    assert.ok(places.every((x) => x >= 100 && x <= 900));
    assert.ok(scale.ticks.length >= 3);
    assert.ok(scale.ticks.every((tick) => scale.place(tick) >= 99.9 && scale.place(tick) <= 900.1));
  });
}

test("an axis of no values is there all the same", () => {
  assert.ok(page.timeScale([], 0, 100, true).ticks.length > 0);
  assert.ok(page.timeScale([], 0, 100, false).ticks.length > 0);
});

test("an upward axis is turned", () => {
  const scale = page.linearScale(10, 300, 20);
  assert.equal(scale.place(0), 300);
  assert.ok(scale.place(10) < 40);
});

test("ticks are labelled in the unit that fits", () => {
  assert.deepEqual([5, 300, 2_000, 120_000].map(page.tickLabel), ["5 ms", "300 ms", "2 s", "2 min"]);
});

test("many points are one path", () => {
  assert.equal(
    page.pointPath(
      [
        [1, 2],
        [3.04, 4],
      ],
      "circle",
      5,
    ),
    "M1 2h0M3 4h0",
  );
});

test("the nearest point within reach is found, and none beyond it", () => {
  const finder = new page.PointFinder();
  finder.add(50, 50, 1);
  finder.add(56, 50, 2);
  assert.equal(finder.nearest(54, 51)[2], 2);
  assert.equal(finder.nearest(49, 50)[2], 1);
  assert.equal(finder.nearest(80, 80), null);
});

test("no two models look alike", () => {
  const looks = page.labels.map((label) => JSON.stringify(page.seriesStyle(label)));
  assert.equal(new Set(looks).size, page.labels.length);
});

test("calls that took alike are spread around their line, and none leaves it by more than the spread", () => {
  const points = page.crowd([0, 1, 2, 3], { place: () => 200 }, 40, 22);
  assert.equal(points.length, 4);
  assert.ok(points.every(([x, y]) => x === 200 && Math.abs(y - 40) <= 22));
  assert.equal(new Set(points.map(([, y]) => y)).size, 4);
});
