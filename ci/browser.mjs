// The checks of ci/browser.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.MODULES, "node_modules", "package.json"));
const puppeteer = require("puppeteer-core");
const axeFile = require.resolve("axe-core/axe.min.js");
const [file, out] = process.argv.slice(2);
const url = pathToFileURL(file).href;

const WIDTHS = [360, 800, 1400];
const SCHEMES = ["light", "dark"];
// Smaller letters can't be read, in CSS pixels.
const MIN_TEXT = 9;

// The width of A4 without margins, in CSS pixels.
const PAPER = 680;

// A flame graph whose script has started.
const DRAWN = "main > svg:not([viewBox])";

let failures = 0;
function expect(what, problems) {
  if (problems.length === 0) {
    console.log(`ok    ${what}`);
  } else {
    failures += 1;
    console.log(`FAIL  ${what}`);
    for (const problem of problems.slice(0, 12)) console.log(`      ${problem}`);
    if (problems.length > 12) console.log(`      and ${problems.length - 12} more`);
  }
}

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  // Chromium has no sandbox for root.
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});

// A page whose messages and requests are collected.
async function open(width, scheme, script = true) {
  const page = await browser.newPage();
  const messages = [];
  page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => messages.push(`error: ${error.message}`));
  page.on("requestfailed", (request) => messages.push(`failed: ${request.url()}`));
  page.on("request", (request) => {
    const is_own = request.url() === url || request.url().startsWith("about:");
    if (!is_own) messages.push(`requested: ${request.url().slice(0, 80)}`);
  });
  await page.setJavaScriptEnabled(script);
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url, { waitUntil: "load" });
  return { page, messages };
}

// Each figure has one visible picture, which lies in the window and can be read.
function lookAtCharts(minText) {
  const problems = [];
  const room = document.documentElement;
  if (room.scrollWidth > room.clientWidth) {
    problems.push(`the page is ${room.scrollWidth} wide, the window ${room.clientWidth}`);
  }
  const figures = [...document.querySelectorAll("figure")];
  if (figures.length === 0) problems.push("there is no chart");
  for (const figure of figures) {
    const name = figure.querySelector("figcaption").textContent;
    const shown = [...figure.querySelectorAll("svg")].filter((it) => it.checkVisibility());
    if (shown.length !== 1) {
      problems.push(`${name}: ${shown.length} pictures`);
      continue;
    }
    const box = shown[0].getBoundingClientRect();
    if (box.width < 250 || box.height < 60 || box.left < 0 || box.right > room.clientWidth) {
      problems.push(`${name}: at ${box.left} to ${box.right}, ${box.height} high`);
    }
    const scale = box.width / shown[0].viewBox.baseVal.width;
    for (const text of shown[0].querySelectorAll("text")) {
      const size = text.getAttribute("font-size") * scale;
      const place = text.getBoundingClientRect();
      if (size < minText) problems.push(`${name}: "${text.textContent}" has ${size.toFixed(1)} px`);
      if (place.left < box.left - 1 || place.right > box.right + 1) {
        problems.push(`${name}: "${text.textContent}" leaves the picture`);
      }
    }
  }
  return problems;
}

// The first screen: the machine, the answer, the picture and the changes come before the contents,
// and the answer is seen without scrolling.
function lookAtFirstScreen() {
  const problems = [];
  const parts = ["h1", ".origin", ".answer", "header figure", ".brief", "nav"];
  const found = parts.map((part) => [part, document.querySelector(part)]);
  let above = 0;
  for (const [part, element] of found) {
    const box = element?.getBoundingClientRect();
    if (!box || box.height === 0) problems.push(`there is no ${part}`);
    else if (box.top < above) problems.push(`${part} is not below the part before it`);
    else above = box.top;
  }
  const answer = document.querySelector(".answer")?.getBoundingClientRect();
  if (answer && answer.bottom > innerHeight) problems.push("the answer is out of sight");
  return problems;
}

// Each section of the contents has a text, and findings, a chart, a table or the command that brings
// its record.
function lookAtSections() {
  const problems = [];
  const links = [...document.querySelectorAll("nav a")];
  if (links.length < 5) problems.push(`there are ${links.length} sections`);
  for (const link of links) {
    const name = link.textContent;
    const section = document.querySelector(link.getAttribute("href"))?.closest("section");
    if (!section) problems.push(`${name}: no section`);
    else if (!section.querySelector("p, li")) problems.push(`${name}: no text`);
    else if (!section.querySelector(".findings, figure, table, .missing, pre")) {
      problems.push(`${name}: nothing but a text`);
    }
  }
  return problems;
}

// The violations of axe's rules; `tags` limits them.
async function violations(frame, tags) {
  await frame.addScriptTag({ path: axeFile });
  const found = await frame.evaluate(
    (tags) => axe.run(document, { iframes: false, ...(tags && { runOnly: tags }) }),
    tags,
  );
  return found.violations.flatMap((it) =>
    it.nodes.map((node) => `${it.id}: ${it.help}: ${node.html.slice(0, 120)}`),
  );
}

async function openAll(page) {
  await page.evaluate(() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
}

for (const scheme of SCHEMES) {
  for (const width of WIDTHS) {
    const name = `${width} ${scheme}`;
    const { page, messages } = await open(width, scheme);
    expect(`${name}: charts`, await page.evaluate(lookAtCharts, MIN_TEXT));
    expect(`${name}: first screen`, await page.evaluate(lookAtFirstScreen));
    expect(`${name}: sections`, await page.evaluate(lookAtSections));
    await page.screenshot({ path: join(out, `page-${width}-${scheme}.png`), fullPage: true });
    expect(`${name}: accessibility`, await violations(page.mainFrame()));
    await openAll(page);
    expect(`${name}: charts, with all tables open`, await page.evaluate(lookAtCharts, MIN_TEXT));
    expect(`${name}: accessibility, with all tables open`, await violations(page.mainFrame()));
    await page.screenshot({ path: join(out, `open-${width}-${scheme}.png`), fullPage: true });
    // Frames load when they come into view.
    for (const frame of await page.$$("iframe")) {
      await frame.scrollIntoView();
      const inner = await frame.contentFrame();
      await inner.waitForSelector(DRAWN, { timeout: 20000 });
    }
    expect(`${name}: console and requests`, messages);
    await page.close();
  }
}

// The keyboard reaches every link, summary and region, each with a visible outline, and opens a
// table.
{
  const { page } = await open(800, "light");
  const wanted = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], summary, [tabindex='0'], iframe")];
    const shown = all.filter((it) => it.checkVisibility() || it.matches(".skip"));
    shown.forEach((it, at) => (it.dataset.stop = at));
    return shown.length;
  });
  const problems = [];
  for (let at = 0; at < wanted; at += 1) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const it = document.activeElement;
      const box = it.getBoundingClientRect();
      const style = getComputedStyle(it);
      return {
        stop: it.dataset.stop,
        text: it.textContent.slice(0, 60),
        isSeen: box.bottom > 0 && box.top < innerHeight && box.left >= 0,
        isMarked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
      };
    });
    if (found.stop !== String(at)) problems.push(`stop ${at} is ${found.stop}: ${found.text}`);
    if (!found.isSeen) problems.push(`out of sight: ${found.text}`);
    if (!found.isMarked) problems.push(`no outline: ${found.text}`);
  }
  await page.focus("summary");
  await page.keyboard.press("Enter");
  const isOpen = await page.evaluate(() => document.querySelector("summary").parentNode.open);
  if (!isOpen) problems.push("Enter does not open a table");
  await page.evaluate(() => document.querySelector("nav a").focus());
  await page.keyboard.press("Enter");
  const target = await page.evaluate(() => location.hash);
  if (!target) problems.push("Enter does not follow a link");
  expect(`keyboard: ${wanted} stops`, problems);
  await page.close();
}

// The pointer brings the interval and the rounds.
{
  const { page } = await open(800, "light");
  const bar = await page.$(".wide g[data-hint] rect");
  await bar.scrollIntoView();
  await bar.hover();
  const tip = await page.$eval(".tip", (it) => (it.checkVisibility() ? it.textContent : ""));
  expect(`hover: ${tip}`, /rounds/.test(tip) ? [] : ["no rounds in the hint"]);
  await page.screenshot({ path: join(out, "hover.png") });
  await page.close();
}

// Without scripts everything is there.
{
  const { page } = await open(360, "light", false);
  expect("360 without scripts: charts", await page.evaluate(lookAtCharts, MIN_TEXT));
  expect("360 without scripts: sections", await page.evaluate(lookAtSections));
  await page.close();
}

// Each flame graph by itself.
{
  const { page, messages } = await open(1400, "light");
  await openAll(page);
  const frames = await page.$$("iframe");
  const problems = [];
  for (const frame of frames) {
    await frame.scrollIntoView();
    const inner = await frame.contentFrame();
    await inner.waitForSelector(DRAWN, { timeout: 20000 });
    // The rules for whole pages, such as those on headings, are not for a picture.
    problems.push(...(await violations(inner, ["wcag2a", "wcag2aa"])));
    const drawn = await inner.$eval("main > svg", (it) => it.getBoundingClientRect().width);
    const room = await inner.evaluate(() => innerWidth);
    if (Math.abs(drawn - room) > 20) problems.push(`the picture is ${drawn} wide, its frame ${room}`);
    // A click on a function enlarges it.
    const before = await inner.$$eval("#frames g rect", (all) => all.map((it) => it.getAttribute("width")));
    const narrow = await inner.$$("#frames g rect");
    await narrow[Math.floor(narrow.length / 2)].evaluate((it) =>
      it.dispatchEvent(new MouseEvent("click", { bubbles: true })),
    );
    const after = await inner.$$eval("#frames g rect", (all) => all.map((it) => it.getAttribute("width")));
    if (before.join() === after.join()) problems.push("a click enlarges nothing");
  }
  expect(`flame graphs: ${frames.length}`, problems.concat(messages));
  if (frames.length > 0) await frames[0].screenshot({ path: join(out, "flame-enlarged.png") });
  await page.close();
}
{
  const { page } = await open(1400, "light");
  await openAll(page);
  const frame = await page.$("iframe");
  if (frame) {
    await frame.scrollIntoView();
    await (await frame.contentFrame()).waitForSelector(DRAWN, { timeout: 20000 });
    await frame.screenshot({ path: join(out, "flame.png") });
  }
  await page.close();
}

{
  const { page } = await open(PAPER, "dark");
  // What is wider than the paper makes the browser print all of the page smaller.
  await page.emulateMediaType("print");
  const wide = await page.evaluate(() => {
    const room = document.documentElement.clientWidth;
    const all = [...document.querySelectorAll("body :not(svg *)")];
    const over = all.filter((it) => it.getBoundingClientRect().right > room + 1);
    return over.map((it) => `${it.tagName} leaves the paper: ${it.textContent.slice(0, 60)}`);
  });
  expect("print: width", wide);
  const hidden = await page.evaluate(() => {
    const all = [...document.querySelectorAll("main p, main li")];
    const lost = all.filter((it) => !it.checkVisibility() && !it.closest("details"));
    return lost.map((it) => `not printed: ${it.textContent.slice(0, 60)}`);
  });
  expect("print: texts", hidden);
  const side = "15mm";
  const margin = { top: side, bottom: side, left: side, right: side };
  const pdf = await page.pdf({ format: "A4", printBackground: true, margin });
  writeFileSync(join(out, "page.pdf"), pdf);
  const pages = Buffer.from(pdf).toString("latin1").match(/\/Type\s*\/Page\b/g) ?? [];
  expect(`print: ${pages.length} pages`, pages.length > 1 ? [] : ["no pages"]);
  await page.close();
}

await browser.close();
console.log(`Look at the pictures in ${out}.`);
process.exit(failures === 0 ? 0 : 1);
