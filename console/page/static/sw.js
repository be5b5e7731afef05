// The service worker shows the notifications of remotes, and passes on the answers of people. It has no session, which is in
// a tab alone: the token of a notification is its right, for one answer.
const unreached = "The console does not answer. Open the page."; // the page's texts are a module, which not all workers can load

addEventListener("install", () => skipWaiting());
addEventListener("activate", event => event.waitUntil(clients.claim()));

addEventListener("push", event => {
  const { title, body, tag, token, actions = [] } = event.data.json();
  event.waitUntil(registration.showNotification(title, { body, tag, icon: "icon.svg", renotify: true, requireInteraction: Boolean(token), actions, data: { title, tag, token } }));
});

addEventListener("notificationclick", event => {
  event.notification.close();
  event.waitUntil(event.action ? answer(event.notification.data, event.action) : open());
});

async function answer({ title, tag, token }, decision) {
  let why = unreached;
  try {
    const r = await fetch("api/answer", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token, decision }) });
    if (r.ok) return;
    why = (await r.json()).error || why;
  } catch { /* the connection is lost */ }
  await registration.showNotification(title, { body: why, tag, icon: "icon.svg", renotify: true, data: {} });
}

async function open() {
  const [page] = await clients.matchAll({ type: "window" });
  await (page ? page.focus() : clients.openWindow("./#remotes"));
}
