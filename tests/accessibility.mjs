// Runs axe-core over pages in light and dark, wide and narrow; prints each violation, and ends with 1 if there is any.
//
//   node accessibility.mjs MODULES CHROMIUM ADDRESS…
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, executablePath, ...addresses] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const SCREENS = [{ width: 1280, height: 900 }, { width: 390, height: 844 }];
const LOOKS = SCREENS.flatMap((viewport) => ["light", "dark"].map((colorScheme) => ({ colorScheme, viewport })));
const PASTED = "The quick brown fox jumps over the lazy dog, and then it sleeps until the sun is up again.";

// The violations of the page as it is, with all that folds open.
async function violations(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    const found = await window.axe.run();
    const elements = (rule) => rule.nodes.map((node) => ({ html: node.html, why: node.failureSummary }));
    return { nPasses: found.passes.length, rules: found.violations.map((rule) => ({ id: rule.id, help: rule.help, elements: elements(rule) })) };
  });
}

// The page of two texts: a form leads there.
async function compareTexts(page, address) {
  await page.goto(address);
  await page.fill("#a_text", PASTED);
  await page.fill("#b_text", `Something else. ${PASTED}`);
  await page.click("form[method=post] button");
  await page.waitForSelector("mark");
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let nChecks = 0;
let nViolations = 0;
for (const look of LOOKS) {
  // The pages allow no scripts of others.
  const page = await (await browser.newContext({ ...look, bypassCSP: true })).newPage();
  const check = async (name) => {
    const { nPasses, rules } = await violations(page);
    if (nPasses === 0) throw new Error(`${name}: axe-core checked nothing`);
    nChecks += 1;
    for (const rule of rules) {
      nViolations += rule.elements.length;
      console.error(`${name} (${look.colorScheme}, ${look.viewport.width}): ${rule.id}: ${rule.help}, ${rule.elements.length} times`);
      for (const { html, why } of rule.elements.slice(0, 3)) console.error(`  ${html.slice(0, 200)}\n    ${why.replaceAll("\n", "\n    ")}`);
    }
  };
  // It must see what is wrong.
  await page.setContent("<html><body><img src='x'><input></body></html>");
  const planted = (await violations(page)).rules.map((rule) => rule.id);
  for (const id of ["image-alt", "label", "html-has-lang"]) {
    if (!planted.includes(id)) throw new Error(`axe-core does not find ${id} where it is planted`);
  }
  for (const address of addresses) {
    await page.goto(address);
    await check(address);
    if (address.endsWith("/compare")) {
      await compareTexts(page, address);
      await check(`${address}, two texts`);
    }
  }
}
await browser.close();
console.log(`axe-core: ${nChecks} checks of ${addresses.length} pages, ${nViolations} violations`);
process.exitCode = nViolations === 0 ? 0 : 1;
