// Passkeys: asks this browser to make one, or to sign with one, and posts what it answers with the form around the button.
export const REASONS = {
  AbortError: "Nothing was confirmed. Try again.",
  NotAllowedError: "Nothing was confirmed, or it took too long. Try again.",
  InvalidStateError: "This device has a passkey for you here already.",
  SecurityError: "This address cannot have passkeys: they need HTTPS and a host name, or localhost.",
};
const making = document.getElementById("making");

async function toSign(address, form) {
  const body = new URLSearchParams({ csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken.value });
  const answer = await fetch(address, { method: "POST", headers: { accept: "application/json" }, body });
  const given = await answer.json();
  if (!answer.ok) throw new Error(given.error);
  return given;
}

async function answered(part, form) {
  if (!making) {
    const { publicKey } = await toSign(part.dataset.passkey, form);
    return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
  }
  const { publicKey } = JSON.parse(making.textContent);
  return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey) });
}

function start(part) {
  const form = part.closest("form");
  const button = part.querySelector("button");
  const words = part.querySelector("[role=alert]");
  const field = part.querySelector("input");
  button.addEventListener("click", async () => {
    button.disabled = true;
    words.hidden = true;
    try {
      field.value = JSON.stringify(await answered(part, form));
      if ("submits" in part.dataset) return form.submit();
      form.elements.code.required = false;
      button.textContent = "Passkey confirmed";
    } catch (error) {
      button.disabled = false;
      words.textContent = REASONS[error.name] ?? (error.message || "This browser could not use a passkey.");
      words.hidden = false;
    }
  });
}

const can = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);
for (const part of document.querySelectorAll("[data-passkey]")) can ? start(part) : part.remove();
