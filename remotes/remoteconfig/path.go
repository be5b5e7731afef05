package remoteconfig

import "codex-proxy/internal/settingsfile"

func (s *Settings) checkDirectories() error {
	if s.Hands != nil {
		return nil
	}
	if s.Directory == "" {
		return settingsfile.Wrong("directory",
			`is missing: name the directory that codex works in, as in directory = "/srv/app"`)
	}
	if err := settingsfile.CheckDirectory("directory", s.Directory); err != nil {
		return err
	}
	if len(s.Writable) > maxItems {
		return settingsfile.Wrong("writable", "has more than %d", maxItems)
	}
	for _, dir := range s.Writable {
		if err := settingsfile.CheckDirectory("writable", dir); err != nil {
			return err
		}
	}
	return nil
}

// Directories are all directories of the work. A remote with hands has none.
func (s *Settings) Directories() []string {
	if s.Hands != nil {
		return nil
	}
	return append([]string{s.Directory}, s.Writable...)
}
