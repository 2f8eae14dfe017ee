-- What wrk asks `lookalike serve`: see http.sh.
local work, question = os.getenv("WORK"), os.getenv("QUESTION")
local asked = {}

local function read(name)
  local file = assert(io.open(work .. "/" .. name, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function init()
  if question == "similar" then
    for body in read("bodies"):gmatch("[^%z]+") do asked[#asked + 1] = body end
  elseif question == "health" then
    asked[1] = "/healthz"
  else
    for url in read("urls"):gmatch("[^\n]+") do asked[#asked + 1] = "/v1/" .. question .. "?url=" .. url end
  end
end

local at = 0
function request()
  at = at % #asked + 1
  if question == "similar" then
    return wrk.format("POST", "/v1/similar", { ["content-type"] = "text/html" }, asked[at])
  end
  return wrk.format("GET", asked[at])
end

function done(summary, latency)
  local errors = summary.errors
  local n_errors = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local function ms(p) return string.format("%.2f ms", latency:percentile(p) / 1000) end
  print(string.format("%12.0f %9s %9s %9s %8d", summary.requests / summary.duration * 1e6, ms(50), ms(99), ms(99.9), n_errors))
end
