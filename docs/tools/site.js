// For readers without a mouse, what the theme's script leaves out: a name for the search, Tab to code
// that scrolls, and no landmark for every copy button (they all have the same name).
for (const part of [".md-search", ".md-search__options"])
  document.querySelector(part).ariaLabel = "Search the site";
new MutationObserver(() => {
  for (const bar of document.querySelectorAll(".md-code__nav")) bar.role = "none";
  for (const code of document.querySelectorAll("pre > code:not([tabindex])"))
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true, attributeFilter: ["tabindex"] });
