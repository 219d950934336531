// Keys for links and fields marked with data-key, and addresses without empty filters. The pages work without it.
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return
  if (walk(event.key)) return event.preventDefault()
  const marked = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`)
  if (!marked) return
  event.preventDefault()
  if (marked.matches("a, [type=checkbox]")) marked.click()
  else marked.focus()
})
// Cards: j and k go to the next and the previous one, x selects it; the boxes above select the whole page.
const picks = [...document.querySelectorAll(".pick input")]
function walk(key) {
  const here = picks.findIndex(pick => pick.closest(".card").contains(document.activeElement))
  const step = {j: 1, k: -1}[key]
  if (key === "x" && here >= 0) picks[here].click()
  else if (step) picks[Math.max(0, Math.min(picks.length - 1, here + step))]?.closest(".card").querySelector("h2 a").focus()
  else return false
  return true
}
const every = document.querySelector("#select-all")
if (every) {
  every.parentElement.hidden = false
  every.addEventListener("change", () => { for (const pick of picks) pick.checked = every.checked })
}
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
// The map: a line drawn around points leads to their pictures. A click without a line follows the point's link.
const lasso = document.querySelector(".lasso")
if (lasso) {
  const [most, spacing] = [100, 8] // corners, and pixels between them while the line is drawn
  let corners = null
  const at = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(lasso.getScreenCTM().inverse())
  const far = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) >= spacing
  lasso.addEventListener("dragstart", event => event.preventDefault())
  lasso.addEventListener("pointerdown", event => { if (event.button === 0) corners = [at(event)] })
  lasso.addEventListener("pointermove", event => {
    if (!corners || !far(at(event), corners.at(-1))) return
    if (corners.push(at(event)) === 3) lasso.setPointerCapture(event.pointerId)
    lasso.querySelector("polygon").setAttribute("points", corners.map(corner => `${corner.x},${corner.y}`).join(" "))
  })
  addEventListener("pointerup", () => {
    const drawn = corners
    corners = null
    if (!drawn || drawn.length < 3) return
    const every = Math.ceil(drawn.length / most)
    const share = (value, length) => ((value - 10) / (length - 20)).toFixed(3)
    const within = drawn.filter((_, place) => place % every === 0).map(corner => `${share(corner.x, 1000)},${share(corner.y, 560)}`)
    const view = lasso.dataset.view
    location.href = view + (view.endsWith("?") ? "" : "&") + "within=" + encodeURIComponent(within.join(";"))
  })
}
// Below each other on a narrow screen, filters are folded until the reader unfolds them.
if (matchMedia("(max-width: 44rem)").matches) for (const facet of document.querySelectorAll(".facet")) facet.open = false
// A form that the browser shows again after "back" must not stay without its empty fields.
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll(".filters :disabled")) field.disabled = false
})
