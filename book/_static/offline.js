// A page opened from a folder may not fetch its neighbours, so the search there lists titles without excerpts.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
