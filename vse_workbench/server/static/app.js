"use strict";
// The page of the search server. All that comes from the corpus is set as text, never as HTML.
const $ = (id) => document.getElementById(id);
let models = [];
let best = ""; // the model that the page opens on
let asked = null; // {text} | {image: id} | {file}
const files = new Map(); // images that were searched with, by the number of the search
let number = 0; // of the newest search: answers to older ones are dropped

function fill(select, names, wanted) {
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(wanted)) select.value = wanted;
}

function choose() {
  const model = models.find((each) => each.model === $("model").value);
  const splits = Object.keys(model.splits);
  fill($("split"), splits, $("split").value || (splits.includes("test") ? "test" : splits[0]));
  fill($("criterion"), model.criteria, $("criterion").value);
}

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

function element(name, content, className) {
  const made = document.createElement(name);
  if (content !== undefined) made.textContent = content;
  if (className) made.className = className;
  return made;
}

function button(content, className, act) {
  const made = element("button", content, className);
  made.addEventListener("click", act);
  return made;
}

function picture(id, address, alt) {
  const open = button(undefined, "picture", () => search({ image: id }));
  const image = element("img");
  // where the corpus has no photograph its id stands in its place
  const name = element("span", id, "name");
  image.addEventListener("error", () => image.replaceWith(name));
  image.src = address ?? "data:,";
  image.alt = alt;
  image.loading = "lazy";
  open.title = "Captions of this image";
  open.append(image);
  return open;
}

// An image with its first caption, or a caption alone: the image searched with stands beside them.
function card(hit, kind) {
  const item = element("li");
  if (kind === "image") item.append(picture(hit.image_id, hit.image, hit.text || hit.id));
  const told = element("div");
  const rank = element("p", undefined, "rank");
  rank.append(element("b", hit.rank), element("span", hit.score.toFixed(3)));
  told.append(rank, element("p", hit.text), element("p", hit.id, "name"));
  if (hit.attention) {
    told.append(button("Where it looks", "look", () => {
      $("attention").src = hit.attention;
      $("attention").alt = `where the model looks in ${hit.image_id}`;
      $("dialog").showModal();
    }));
  }
  if (kind === "caption") {
    told.append(button("Images of this text", "look", () => search({ text: hit.text })));
    told.append(button("The caption's image", "look", () => search({ image: hit.image_id })));
  }
  item.append(told);
  return item;
}

// Before the first search: captions and images of the split, to begin with.
async function start() {
  const split = $("split").value;
  const mine = number;
  const images = models.find((each) => each.model === $("model").value).splits[split];
  const why = $("model").value === best ? ": it has the largest validation rsum" : "";
  say(`${images.toLocaleString("en")} images · ${$("model").value} answers${why}`);
  const response = await fetch(`/api/examples?${new URLSearchParams({ split })}`);
  const some = await response.json();
  if (!response.ok) throw new Error(some.detail);
  if (mine !== number) return;
  const listed = (items, make) => items.map((each) => {
    const item = element("li");
    item.append(make(each));
    return item;
  });
  $("examples").replaceChildren(
    ...listed(some.texts, (text) => button(text, "example", () => search({ text }))),
  );
  $("gallery").replaceChildren(...listed(some.images, (id) =>
    picture(id, `/images?${new URLSearchParams({ id, side: 160 })}`, id)));
  $("start").hidden = false;
}

// The image searched with is shown when it has loaded: a file that is no image shows nothing.
function forget() {
  if ($("asked").src.startsWith("blob:")) URL.revokeObjectURL($("asked").src);
  $("asked").removeAttribute("src");
  $("asked").hidden = true;
}

async function search(question, remember = true) {
  asked = question;
  const mine = ++number;
  const query = new URLSearchParams();
  for (const id of ["model", "split", "criterion", "top"]) query.set(id, $(id).value);
  if (question.text !== undefined) query.set("text", question.text);
  if (question.image !== undefined) query.set("image", question.image);
  $("text").value = question.text ?? "";
  $("start").hidden = true;
  forget();
  if (question.file) $("asked").src = URL.createObjectURL(question.file);
  if (question.image !== undefined) {
    $("asked").src = `/images?${new URLSearchParams({ id: question.image })}`;
  }
  if (question.file) files.set(mine, question.file);
  if (remember) history.pushState(question.file ? { file: mine } : null, "", `/?${query}`);
  document.title = question.text ?? question.image ?? "Search";
  say("searching …");
  let answer;
  try {
    const sent = question.file ? { method: "POST", body: question.file } : {};
    const response = await fetch(`/api/search?${query}`, sent);
    answer = await response.json();
    if (!response.ok) throw new Error(answer.detail);
  } catch (error) {
    if (mine === number) {
      $("hits").replaceChildren();
      say(error.message, true);
    }
    return;
  }
  if (mine !== number) return;
  $("hits").replaceChildren(...answer.hits.map((hit) => card(hit, answer.kind)));
  $("found").className = `${answer.kind}s`;
  const places = { image: "images", caption: "captions" };
  const about = `${answer.searched.toLocaleString("en")} ${places[answer.kind]} of ${answer.split}, `
    + `ranked by ${answer.model} (${answer.criterion}) in ${(1000 * answer.seconds).toFixed(0)} ms`;
  say([about, ...answer.notes].join(" · "));
}

function again() {
  if (asked) search(asked);
  else start().catch((error) => say(error.message, true));
}

// The question in the address, so that a search can be kept and sent.
function fromAddress() {
  const given = new URLSearchParams(location.search);
  if (models.some((each) => each.model === given.get("model"))) $("model").value = given.get("model");
  choose();
  for (const id of ["split", "criterion", "top"]) {
    if ([...$(id).options].some((option) => option.value === given.get(id))) {
      $(id).value = given.get(id);
    }
  }
  const file = files.get(history.state?.file);
  if (file) return search({ file }, false);
  for (const key of ["text", "image"]) {
    if (given.has(key)) return search({ [key]: given.get(key) }, false);
  }
  asked = null;
  number += 1;
  $("hits").replaceChildren();
  forget();
  $("text").value = "";
  document.title = "Search";
  return again();
}

async function begin() {
  const known = await (await fetch("/api/models")).json();
  ({ models, best } = known);
  fill($("model"), models.map((each) => each.model), best);
  const others = known.not_searchable.map((each) => `${each.model}: ${each.why}`);
  $("others").textContent = `Not searchable: ${others.join("; ")}.`;
  $("others").hidden = !others.length;
  fromAddress();
  window.addEventListener("popstate", fromAddress);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("text").value.trim()) search({ text: $("text").value.trim() });
});
$("pick").addEventListener("click", () => $("file").click());
$("asked").addEventListener("load", () => { $("asked").hidden = false; });
$("file").addEventListener("change", () => {
  if ($("file").files.length) search({ file: $("file").files[0] });
  $("file").value = "";
});
$("model").addEventListener("change", () => { choose(); again(); });
for (const id of ["split", "criterion", "top"]) $(id).addEventListener("change", again);
$("close").addEventListener("click", () => $("dialog").close());
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  const file = event.dataTransfer.files[0];
  if (file) search({ file });
});
document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find((each) => each.type.startsWith("image/"));
  if (file) search({ file });
});
begin().catch((error) => say(`the server does not answer: ${error.message}`, true));
