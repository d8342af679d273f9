-- Licensed under the Apache License, Version 2.0 (the "License");
-- you may not use this file except in compliance with the License.
-- You may obtain a copy of the License at
--
--     http://www.apache.org/licenses/LICENSE-2.0
--
-- Unless required by applicable law or agreed to in writing, software
-- distributed under the License is distributed on an "AS IS" BASIS,
-- WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
-- See the License for the specific language governing permissions and
-- limitations under the License.

-- Which thread serves; after a while, if there is one: ?ms=500
require "apache2"

function handle(r)
    local ms = tonumber((r.args or ""):match("ms=(%d+)")) or 0
    r.content_type = "text/plain"
    r:write("thread: " .. io.open("/proc/thread-self/stat"):read("n") .. "\n")
    r:flush()
    r.usleep(ms * 1000)
    r:write("END\n")
    return apache2.OK
end
