// Keys for links and fields marked with data-key, and addresses without empty filters. The pages work without it.
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return
  const marked = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`)
  if (!marked) return
  event.preventDefault()
  if (marked.matches("a")) marked.click()
  else marked.focus()
})
document.querySelector(".filters")?.addEventListener("submit", event => {
  for (const field of event.target.elements) field.disabled = field.name !== "" && field.value === ""
})
// A form that the browser shows again after "back" must not stay without its empty fields.
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll(".filters :disabled")) field.disabled = false
})
