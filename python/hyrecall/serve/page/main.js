// Starts the page: what the service serves, which view the address names, and the two dialogs.
import { ServiceError, api, token } from "./api.js";
import { byId, el, show } from "./dom.js";
import { showFiles } from "./files.js";
import { startKeys } from "./keys.js";
import { showMemory } from "./memory.js";
import { countFilters, startRecall, whoOf } from "./recall.js";

const form = byId("ask");
const info = { kind: "store", recipe: "", recipes: [], columns: [] };
let turn = 0;

const said = (text) => { byId("said").textContent = text; };

function open(id) {
  const dialog = byId(id);
  if (!dialog.open) dialog.showModal();
}

/** Shows a fault above all views, or takes it away. A missing token is asked for. */
function report(fault) {
  const place = byId("notice");
  place.hidden = fault === null;
  place.textContent = fault === null ? "" : fault.message;
  if (fault instanceof ServiceError && fault.status === 401) open("token-dialog");
}

function parse(hash) {
  const recall = /^#\/recall\?(.*)$/s.exec(hash);
  if (recall) return { view: "recall", parts: [], asked: recall[1] };
  const parts = hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { view: parts[0] || "recall", parts: parts.slice(1), asked: "" };
}

async function navigate() {
  const { view, parts, asked } = parse(location.hash);
  const mine = ++turn;
  const isCurrent = () => mine === turn;
  const known = ["recall", "memory", "files"].includes(view) && (view === "recall" || info.kind === "store") ? view : "recall";
  for (const name of ["recall", "memory", "files"]) byId(`view-${name}`).hidden = name !== known;
  for (const tab of document.querySelectorAll("[data-view]")) {
    if (tab.dataset.view === known) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  document.title = { recall: "hyrecall", memory: `${parts[0] ?? ""} · hyrecall`, files: `/${parts.join("/")} · hyrecall` }[known];
  if (known === "recall") {
    if (info.scope) follow(asked);
    return;
  }
  report(null);
  const place = byId(`view-${known}`);
  try {
    if (known === "memory") await showMemory(place, parts[0] ?? "", whoOf(form), isCurrent);
    else await showFiles(place, `/${parts.join("/")}`, whoOf(form), isCurrent, said);
  } catch (fault) {
    if (isCurrent()) { show(place); report(fault); }
  }
}

function choices(select, names, first) {
  const before = select.value;
  show(select, first !== null && el("option", { value: "" }, first), names.map((name) => el("option", { value: name }, name)));
  if (names.includes(before)) select.value = before;
}

/** A field that the token fixes shows the value and cannot be changed. */
function fix(name, value, isFree) {
  const field = form.elements[name];
  field.value = value ?? field.value;
  field.readOnly = !isFree;
  field.title = isFree ? "" : "Your token says this";
  field.closest("label").hidden = !isFree && !value;
}

async function connect() {
  try {
    Object.assign(info, readInfo(await api.info()));
  } catch (fault) {
    byId("served").textContent = "";
    report(fault);
    return false;
  }
  report(null);
  for (const node of document.querySelectorAll("[data-needs]")) node.hidden = node.dataset.needs !== info.kind;
  choices(form.elements.recipe, info.recipes, info.recipes.includes(info.recipe) ? null : info.kind === "index" ? "as the index says" : info.recipe || "the store's own");
  if (info.recipes.includes(info.recipe) && !form.elements.recipe.dataset.chosen) form.elements.recipe.value = info.recipe;
  form.elements.recipe.dataset.chosen = "yes";
  choices(form.elements.beside, info.recipes, "no other");
  byId("served").textContent = info.told;
  if (info.kind === "store") {
    const { scope } = info;
    for (const name of ["user_id", "org", "workspace"]) fix(name, scope[name], info.free(name));
    countFilters(form);
  }
  showCells();
  byId("welcome-user").hidden = info.kind !== "store" || !info.free("user_id");
  byId("welcome").hidden = false;
  return true;
}

function readInfo(given) {
  const { kind, recipes, token: scope } = given;
  return {
    kind, recipes, scope,
    recipe: given.recipe ?? "",
    columns: given.columns ?? [],
    highlights: given.highlights === true,
    cell: given.cell ?? [],
    told: [scope.agent && `agent ${scope.agent}`, kind === "index" ? "an index" : "a store", `hyrecall ${given.version}`].filter(Boolean).join(" · "),
    free: (name) => scope[name] === null && (name === "user_id" ? scope.may_choose_user : scope.may_choose_partition),
  };
}

/** What the scope of an index may say: a cell, or several; nothing where the index has one audience. */
function showCells() {
  const field = form.elements.scope;
  const example = info.cell.length > 1 ? JSON.stringify(info.cell) : info.cell[0];
  field.closest("label").hidden = info.kind !== "index" || !info.cell.length;
  field.placeholder = info.scope.cells === null ? `${example}, or {"any_of": […]}` : "all cells of your token";
}

byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("open-token").addEventListener("click", () => open("token-dialog"));
byId("open-keys").addEventListener("click", () => open("keys-dialog"));
byId("token-dialog").addEventListener("close", async (event) => {
  const { returnValue } = event.target;
  const field = byId("token");
  if (returnValue === "keep" && field.value.trim()) token.set(field.value.trim());
  if (returnValue === "forget") token.set("");
  field.value = "";
  event.target.returnValue = "";
  if (returnValue === "keep" || returnValue === "forget") {
    follow("");
    if (await connect()) navigate();
  }
});
window.addEventListener("hashchange", navigate);

startKeys(open);
const follow = startRecall(form, info, report, said);
connect().then((isThere) => {
  navigate();
  if (isThere && !parse(location.hash).parts.length) byId("query").focus({ preventScroll: true });
});
