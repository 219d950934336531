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
  for (const field of event.target.elements) field.disabled = field.name !== "" && (field.value === "" || field.value === field.dataset.open)
})
// Sliders: the lower end stays below the upper one, and the range is shown while it moves.
for (const sliders of document.querySelectorAll(".sliders")) {
  const [low, high] = sliders.children
  sliders.addEventListener("input", event => {
    if (+low.value > +high.value) event.target.value = event.target === low ? high.value : low.value
    sliders.nextElementSibling.value = `${low.value} – ${high.value}`
  })
  sliders.addEventListener("pointerup", () => setTimeout(() => low.form.requestSubmit()))
}
// Below each other on a narrow screen, filters are folded until the reader unfolds them.
if (matchMedia("(max-width: 44rem)").matches) for (const facet of document.querySelectorAll(".facet")) facet.open = false
// A form that the browser shows again after "back" must not stay without its empty fields.
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll(".filters :disabled")) field.disabled = false
})
