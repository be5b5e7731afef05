// Notifications of remotes in this browser, by Web Push. The service worker, sw.js, shows them.
import { t } from "./texts.js";

// able is true with https, and on the loopback.
const able = () => "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;

// within bounds what a browser without its push service may never end.
const patience = 20_000;
const within = promise => Promise.race([promise, new Promise((_, no) => setTimeout(() => no(new Error(t.push.late)), patience))]);

async function subscribed() {
  const worker = await navigator.serviceWorker.getRegistration();
  return worker ? worker.pushManager.getSubscription() : null;
}

// look is the state of the notifications in this browser, and the button that changes it.
export async function look(order) {
  if (!able()) return { text: t.push.unable };
  if (Notification.permission === "denied") return { text: t.push.denied };
  const known = await subscribed();
  const { on } = await order("push", known ? { endpoint: known.endpoint } : {});
  return on ? { text: t.push.isOn, button: "off" } : { text: t.push.isOff, button: "on" };
}

// on asks the person first: browsers take the question after a click alone.
export async function on(order) {
  const permission = await Notification.requestPermission();
  if (permission !== "granted") throw new Error(permission === "denied" ? t.push.denied : t.push.dismissed);
  await navigator.serviceWorker.register("sw.js");
  const { pushManager } = await within(navigator.serviceWorker.ready);
  const before = await pushManager.getSubscription();
  if (before) await before.unsubscribe(); // it may be for another installation, or another key
  const { public_key } = await order("push", {});
  const now = await within(pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: public_key }))
    .catch(e => { throw new Error(t.push.noService(e.message)); });
  const { endpoint, keys } = now.toJSON();
  try {
    await order("subscribe", { endpoint, ...keys });
  } catch (e) {
    await now.unsubscribe();
    throw e;
  }
}

export async function off(order) {
  const known = await subscribed();
  if (!known) return;
  await order("unsubscribe", { endpoint: known.endpoint });
  await known.unsubscribe();
}
