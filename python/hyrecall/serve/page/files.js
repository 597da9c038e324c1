// The store as files: a folder beside the file that is open, and a search through both.
import { api } from "./api.js";
import { el, link, show } from "./dom.js";
import { plural } from "./format.js";

const parentOf = (path) => path.slice(0, path.replace(/\/$/, "").lastIndexOf("/") + 1) || "/";
const nameOf = (path) => path.replace(/\/$/, "").split("/").at(-1) + (path.endsWith("/") ? "/" : "");

function readable(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** A link to a path; each step of it is a part of the address. */
const fileLink = (path, attributes, text) => link(["files", ...path.split("/").slice(1)], attributes, text);

function crumbs(path) {
  const steps = path.split("/").filter(Boolean);
  const made = [fileLink("/", { "aria-label": "root" }, "/")];
  steps.forEach((step, at) => {
    const isLast = at === steps.length - 1;
    const whole = `/${steps.slice(0, at + 1).join("/")}${isLast && !path.endsWith("/") ? "" : "/"}`;
    made.push(isLast ? el("span", { "aria-current": "page" }, readable(step)) : fileLink(whole, null, readable(step)), isLast ? "" : "/");
  });
  return el("p", { class: "crumbs", "aria-label": "Path" }, made);
}

/** The id of the memory that a path names, or null. */
export function memoryOf(path) {
  const found = /^\/(?:memories\/[^/]+|pinned|graph|shared\/[^/]+\/[^/]+)\/([^/]+)\.md$/.exec(path);
  return found ? readable(found[1]) : null;
}

function entryItem(path, current) {
  return el("li", null, fileLink(path, { "aria-current": path === current ? "page" : null, class: path.endsWith("/") ? "folder" : null }, readable(nameOf(path))));
}

function results(kind, found, pattern) {
  if (!found.length) return el("p", { class: "faint" }, `Nothing matches ${pattern}.`);
  const items = found.map((one) => (kind === "find"
    ? el("li", null, fileLink(one, null, readable(one)))
    : el("li", null, fileLink(one.path, null, readable(one.path)), el("span", { class: "faint" }, `:${one.number} `), el("span", { class: "code", dir: "auto" }, one.text))));
  return [el("p", { class: "faint" }, plural(found.length, kind === "find" ? "file" : "line")), el("ul", { class: "found-files" }, items)];
}

function searchForm(path, who, place, said) {
  const kind = el("select", { name: "kind", "aria-label": "How to search" }, el("option", { value: "grep" }, "grep"), el("option", { value: "find" }, "find"));
  const pattern = el("input", { name: "pattern", type: "search", "aria-label": "Pattern", maxlength: 512, placeholder: "text in memories", spellcheck: "false" });
  const regex = el("input", { type: "checkbox", name: "regex" });
  kind.addEventListener("change", () => { pattern.placeholder = kind.value === "grep" ? "text in memories" : "name, such as *.md"; });
  const below = path.endsWith("/") ? path : parentOf(path);
  return el("form", {
    class: "grep", role: "search",
    submit: async (event) => {
      event.preventDefault();
      if (!pattern.value) return;
      try {
        const found = kind.value === "grep"
          ? (await api.grep(pattern.value, below, regex.checked, who)).lines
          : (await api.find(pattern.value, below, who)).paths;
        show(place, el("h2", null, `${kind.value} below ${below}`), results(kind.value, found, pattern.value));
        said(plural(found.length, "result"));
      } catch (fault) {
        show(place, el("p", { class: "warn" }, fault.message));
        said(fault.message);
      }
    },
  }, kind, pattern, el("label", { class: "check" }, regex, " regex"), el("button", { type: "submit" }, "Search"));
}

/** A file's text; null for one that is not there. */
async function textAt(path, who) {
  try {
    return (await api.cat(path, who)).text;
  } catch (fault) {
    if (fault.status === 404) return null;
    throw fault;
  }
}

/** Shows a path in `place`: its folder, and the file's text if it is one. */
export async function showFiles(place, path, who, isCurrent, said) {
  const isFolder = path.endsWith("/");
  const folder = isFolder ? path : parentOf(path);
  const [listing, text] = await Promise.all([api.ls(folder, who), isFolder ? null : textAt(path, who)]);
  if (!isCurrent()) return;
  const entries = listing.paths;
  const file = el("article", { class: "file", "aria-label": isFolder ? "Folder" : "File" });
  const id = memoryOf(path);
  if (isFolder) {
    show(file, el("p", { class: "faint" }, entries.length ? `${plural(entries.length, "entry", "entries")}. Choose a file, or search below this folder.` : "This folder is empty."));
  } else {
    show(file, id !== null && text && el("p", null, link(["memory", id], null, "Its versions and links")),
      !text ? el("p", { class: "faint" }, "There is no such file in this scope.")
        : el("pre", { tabindex: "0", dir: "auto", "aria-label": readable(nameOf(path)) }, text));
  }
  show(place, crumbs(path), searchForm(path, who, file, said),
    el("div", { class: "browser" },
      el("nav", { "aria-label": `Entries of ${folder}` }, el("ul", { class: "listing" },
        folder !== "/" && el("li", null, fileLink(parentOf(folder), { class: "folder" }, "../")), entries.map((one) => entryItem(one, path)))),
      file));
}
