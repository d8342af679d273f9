-- A request of 4 seconds.

require "apache2"

function handle(r)
    r.content_type = "text/plain"
    r.usleep(4000000)
    r:puts("END\n")
    return apache2.OK
end
